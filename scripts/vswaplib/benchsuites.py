# SPDX-License-Identifier: GPL-2.0
"""The suites of bench, which consist of groups. A group is one guest script, booted once for each
variant (and run), that measures several cells."""

import dataclasses

# The clocks: instructions that QEMU counts; seconds, on User Mode Linux and in QEMU; and
# what lock_stat counts.
ICOUNT, WALL, TIME, LOCKS = "icount", "wall", "time", "locks"


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    script: str              # name below kunit/guest/bench/, and arguments
    clock: str = ICOUNT
    mem: str = "512M"
    disks: tuple = ("512M",)
    append: str = ""
    env: tuple = ()          # more "NAME=value" for the script
    quick: bool = True       # part of --quick
    timeout: int = 1500
    smp: int = 1
    icount: bool = False     # run with the deterministic clock, although another one is measured
    device: bool = False     # virtual slots get the disk, too: some pages do not compress
    host_root: bool = False  # in the host's root file system, with the guest's sources
    packages: tuple = ()     # packages that the host needs for that


def _ram_disk(megabytes):
    """Returns kernel arguments for one ram disk of this size."""
    return f"brd.rd_size={megabytes << 10} brd.rd_nr=1"


# A disk that takes milliseconds. Under icount, time passes while the CPU is idle.
_SLOW_DISK = ' dm-mod.create="slow,,,rw,0 {} delay /dev/ram0 0 4"'
_SLOW_64M = _ram_disk(64) + _SLOW_DISK.format(64 << 11)


# A ram disk with readahead, because device mapper does not report it as fast.
_PLAIN_DISK = ' dm-mod.create="plain,,,rw,0 {} linear /dev/ram0 0"'


def _arm(name):
    return Group(f"accept-{name}", f"accept.sh {name}", disks=(), quick=name != "off",
                 append=_ram_disk(192) + _SLOW_DISK.format(192 << 11))


ZSWAP = (Group("zswap-lz4", "zswap.sh lz4"), Group("zswap-zstd", "zswap.sh zstd"))
# 30 % of the pages do not compress. Without a device, such a page could not be written back. So
# zswap would refuse it, and it would stay in memory. If there is a device, each kernel keeps it in
# the pool (zram: in its own memory) as it is, and no page is written.
ZSWAP_30 = Group("zswap-lz4-30", "zswap.sh lz4 -30%", device=True)
WRITEBACK = tuple(Group(f"writeback-{name}", f"writeback.sh {name}", disks=(),
                        append=_ram_disk(64)) for name in ("lz4", "zstd"))
DISK = Group("disk", "disk.sh", disks=(), append=_ram_disk(64))
# The working set is a quarter to a half above what is free at the start.
USEMEM_ZSWAP = Group("usemem-zswap", "usemem.sh zswap 288", mem="256M")
USEMEM_DISK = Group("usemem-disk", "usemem.sh disk 320", mem="416M", disks=(),
                    append=_ram_disk(160))
LOCK_GROUP = Group("locks", "lockstat.sh", clock=LOCKS, smp=2, mem="1G", quick=False)
HOLD_GROUP = Group("holds", "lockstat.sh holds", clock=LOCKS, icount=True, mem="1G", quick=False)

SUITES = {
    "core": (
        *ZSWAP,
        DISK,
        Group("zram", "zram.sh lz4 zstd", disks=()),
        USEMEM_ZSWAP,
        USEMEM_DISK,
        Group("usemem-zram", "usemem.sh zram 288", mem="256M", disks=(), quick=False),
        LOCK_GROUP,
        Group("native", "native.sh", clock=WALL, disks=(), append=_ram_disk(64)),
    ),
    # The shapes of the published swap-in tables: sparse visits, hints, shmem.
    "swapin": (
        Group("swapin-lz4", "swapin.sh lz4"),
        Group("swapin-zstd", "swapin.sh zstd", quick=False),
        Group("swapin-disk", "swapindisk.sh", disks=(),
              append=_ram_disk(64) + _PLAIN_DISK.format(64 << 11)),
        Group("swapin-fast", "swapinfast.sh", disks=(), append=_ram_disk(64)),
        Group("swapin-time", "swapin.sh lz4", clock=TIME, smp=2, env=("QUICK=1",), quick=False),
    ),
    # zswap in C and in Rust, in one tree.
    "zswap": (
        *ZSWAP,
        *WRITEBACK,
        LOCK_GROUP,
    ),
    # Virtual slots without a device, compared with zswap on a disk, and with zram.
    "virtual": (
        *(dataclasses.replace(group, env=("INCOMPRESSIBLE=0", "MIXED=0"))
          for group in (*ZSWAP, USEMEM_ZSWAP, LOCK_GROUP, HOLD_GROUP)),
        ZSWAP_30,
    ),
    # Virtual slots on devices, compared with physical entries.
    "device": (
        DISK,
        dataclasses.replace(ZSWAP_30, quick=False),
        Group("zram", "zram.sh lz4", disks=()),
        USEMEM_DISK,
        WRITEBACK[0],
        dataclasses.replace(WRITEBACK[1], quick=False),
        Group("pieces", "pieces.sh", disks=(), append=_ram_disk(64)),
    ),
    # The cost of vswap while it is off, also after vswap and zswap were on.
    "off": (
        ZSWAP[0],
        Group("off", "off.sh", disks=(), append=_ram_disk(64)),
    ),
    # Devices slower than memory, which swapoff and zswap's writeback keep busy or wait for. And
    # swapoff of pages that many processes share.
    "slow": (
        Group("swapoff", "swapoff.sh /dev/ram0 1 10 100", disks=(), append=_ram_disk(64)),
        Group("swapoff-slow", "swapoff.sh /dev/dm-0 1", disks=(), append=_SLOW_64M),
        Group("writeback-slow", "writeback.sh lz4 /dev/dm-0", disks=(), append=_SLOW_64M),
    ),
    # A small guest whose memory is full, and one with OOM kills. The guest's programs are in a
    # file system that cannot be swapped out. Otherwise some could be swapped out with virtual
    # slots only, which is not measured here.
    "small": (
        Group("small", "small.sh", mem="128M"),
        Group("oom", "oom.sh none", mem="256M", disks=(), append="rootfstype=ramfs"),
        Group("oom-swapmax", "oom.sh swapmax", mem="256M"),
    ),
    # The gain of zswap's worker going on until the pool can accept pages again.
    "accept": (_arm("off"), _arm("once"), _arm("full")),
    # Kernel memory for each swapped out page.
    "memory": tuple(Group(f"memory-{name}", f"memory.sh {name}", mem="1536M", disks=("1100M",),
                          timeout=3000) for name in ("zswap", "zero", "same", "disk")),
    # Operations whose cost must not grow with the number of cgroups.
    "cgroups": (Group("cgroups", "cgroups.sh 50 1000", mem="1G", disks=("256M",)),),
    # A process beside another one that pages out random data.
    "neighbour": (Group("neighbour", "neighbour.sh", disks=("1G",)),),
    # A compiler in two cgroups that are too small for it.
    "compile": (Group("compile", "compile.sh 20 28", quick=False, host_root=True, timeout=3000),),
    # Programs under global pressure: seconds, since they wait.
    "apps": tuple(Group(f"{app}-{kind}", f"apps.sh {app} {kind}", clock=TIME, smp=2, mem=mem,
                        host_root=True, packages=packages)
                  for app, mem, packages in (("compile", "100M", ()),
                                             ("redis", "112M", ("redis-tools",)))
                  for kind in ("disk", "zram")) +
            (Group("tmpfs", "apps.sh tmpfs ram", clock=TIME, smp=2, mem="768M", host_root=True,
                   append=_ram_disk(320), packages=("fio",)),),
}

# The variants that a suite compares without --variants.
VARIANTS = {"zswap": "vswap-c,vswap", "accept": "hooks",
            "virtual": "base,base-zram,zswap,vswap,vswap-on",
            "small": "base,base-zram,vswap-on", "cgroups": "base,vswap-device",
            "neighbour": "base,vswap-on",
            "device": "base,vswap,vswap-device", "slow": "base,vswap-device",
            "compile": "base,base-zram,vswap,vswap-on", "apps": "base,vswap-device",
            "memory": "base,vswap-on,vswap-device", "off": "base,vswap,vswap-was-on",
            "swapin": "base,vswap-none,vswap-bypass,vswap-large,vswap-device,vswap-policy"}
NO_DEVICE = "SWAPDEV=none"
# A variant with other settings, or with zram instead of zswap: (the build, more kernel arguments,
# more "NAME=value").
ARMS = {"base-zram": ("base", "", ("SWAPDEV=zram",)),
        "vswap-on": ("vswap", " vswap=on", (NO_DEVICE,)),
        "locks-on": ("locks", " vswap=on", (NO_DEVICE,)),
        "no-inline-on": ("no-inline", " vswap=on", (NO_DEVICE,)),
        "vswap-device": ("vswap", " vswap=on", ()),
        # Virtual slots are switched off again before anything is swapped out.
        "vswap-was-on": ("vswap", " vswap=on", ("VSWAP_OFF=1",)),
        # Virtual slots, and the parts of the swap-in policy added one by one.
        "vswap-none": ("vswap", " vswap=on", ("SWAPIN_OFF=enabled",)),
        "vswap-bypass": ("vswap", " vswap=on", ("'SWAPIN_OFF=large map_around'",)),
        "vswap-large": ("vswap", " vswap=on", ("SWAPIN_OFF=map_around",)),
        # The whole policy, without virtual slots.
        "vswap-policy": ("vswap", "", ("SWAPIN_ON=enabled",))}
# The counters of a suite that get a table of their own.
COUNTERS = {"accept": ("pswpin", "pswpout", "zswpin", "zswpout", "zswpwb", "s:pool_limit_hit",
                       "s:reject_reclaim_fail"),
            "device": ("mthp_swpout", "mthp_swpout_fallback", "mthp_split"),
            "small": ("lat_p50_ns", "lat_p99_ns", "lat_max_ns", "elapsed_ns", "pgmajfault",
                      "allocstall_normal", "allocstall_movable", "oom_kill"),
            "slow": ("zswpwb", "s:reads", "s:read_sectors", "s:writes", "s:write_sectors"),
            "compile": ("zswpin", "zswpout", "swap_ra", "swap_ra_hit", "pgmajfault",
                        "workingset_refault_file", "anon_kb", "anon_most_kb", "lat_p50_ns",
                        "lat_p99_ns", "lat_max_ns")}

# {(swapload's command, its phase): the row's last word}. A phase that is called like the command
# needs no entry. Other phases, such as the fill and the swap-out of refault, stay in the JSON but
# are no results.
ROWS = {
    ("free", "swapout"): "swap-out",
    ("free", "settle"): "free, work left to others",
    ("fork", "exit"): "exit of the child",
    ("swapoff", "touch"): "touch after swapoff",
    ("usemem", "usemem"): "fill",
    ("usemem", "reread"): "read again",
    ("usemem", "free"): "free",
    ("run", "sys"): "of that in the kernel",
    ("run", "elapsed"): "from its start to its end",
    ("run", "fault"): "a major fault",
    ("run", "set"): "a request to set",
    ("run", "get"): "a request to get",
    ("run", "read"): "a page that is read",
}
# Not measured on User Mode Linux, where a fault costs as much as a signal of the host.
NOT_NATIVE = {"touch after swapoff", "refault"}

# Runs of a group by clock: (normally, with --quick). An icount run is exact for its input. Runs
# differ by input (contents, orders), so that a ratio does not hold for one trajectory of reclaim
# only.
RUNS = {ICOUNT: (3, 1), WALL: (8, 3), TIME: (8, 3), LOCKS: (1, 1)}

# The builds of variants on other clocks.
NATIVE = {"base": "um-base", "vswap": "um"}
LOCK_VARIANT = {"base": "locks-c", "vswap": "locks", "vswap-c": "locks-c", "vswap-on": "locks-on"}


def settings(group, variant):
    """Returns the build, kernel arguments and environment of a variant for a group."""
    name, append, env = ARMS.get(variant, (variant, "", ()))
    return name, append, tuple(item for item in env if not (group.device and item == NO_DEVICE))


def built(variant):
    """Returns the build that a name given to --variants stands for."""
    return ARMS[variant][0] if variant in ARMS else variant


def script_text(group, quick, run=0, more=()):
    """Returns the guest's script: the environment, then the case."""
    name, *arguments = group.script.split()
    env = [f"QUICK={int(quick)}", f"RUN={run}", *group.env, *more]
    return "".join(f"export {item}\n" for item in env) + \
        f"exec sh /vswap/bench/{name} {' '.join(arguments)}\n"


def number(text):
    """Returns a number if the text is one, otherwise the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_output(text):
    """Parses a guest's output into (info, rows, locks). A row has its name, its figure in ns per
    page and all that swapload printed with it."""
    info, rows, locks, configs = {}, [], [], {}
    for line in text.splitlines():
        # 'swapload a=1 b=x'
        kind, _, rest = line.partition(" ")
        fields = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        if kind == "info":
            info.update(fields)
        elif kind == "lockstat":
            locks.append({key: number(value) for key, value in fields.items()})
        elif kind == "swapload" and fields.get("phase") == "config":
            configs[fields["tag"]] = fields
        elif kind == "swapload" and "ns_per_page" in fields:
            config = configs.get(fields["tag"], {})
            phase, command = fields["phase"], config.get("command")
            word = ROWS.get((command, phase), phase if phase == command else None)
            values = {key: number(value) for key, value in fields.items()}
            rows.append({"tag": fields["tag"], "row": word, "command": command,
                         "config": config, **values})
    return info, rows, locks
