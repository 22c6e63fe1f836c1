# SPDX-License-Identifier: GPL-2.0
"""What bench runs: suites of groups. A group is one guest script, booted once
for each variant (and run), that measures several cells."""

import dataclasses

# The emulated processor of the deterministic clock. Without erms and fsrm a page
# is copied in 512 counted steps instead of 4096: nearer to what a copy costs.
ICOUNT_CPU = "max,-rdrand,-rdseed,-erms,-fsrm"

# The clocks: instructions that QEMU counts; seconds, on User Mode Linux and in QEMU; and
# what lock_stat counts.
ICOUNT, WALL, TIME, LOCKS = "icount", "wall", "time", "locks"


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    script: str              # below kunit/guest/bench/, with its arguments
    clock: str = ICOUNT
    mem: str = "512M"
    disks: tuple = ("512M",)
    append: str = ""
    env: tuple = ()          # more "NAME=value" for the script
    quick: bool = True       # part of --quick
    timeout: int = 1500
    smp: int = 1
    icount: bool = False     # deterministic, also if that is not what the clock counts
    host_root: bool = False  # in the host's root file system, with the guest's sources
    packages: tuple = ()     # that the host has to have, then


def _ram_disk(megabytes):
    """Kernel arguments for one ram disk of this size."""
    return f"brd.rd_size={megabytes << 10} brd.rd_nr=1"


# A disk that takes milliseconds, which under icount pass by themselves.
_SLOW_DISK = ' dm-mod.create="slow,,,rw,0 {} delay /dev/ram0 0 4"'
_SLOW_64M = _ram_disk(64) + _SLOW_DISK.format(64 << 11)


# A ram disk that reads ahead, as it does not say how fast it is.
_PLAIN_DISK = ' dm-mod.create="plain,,,rw,0 {} linear /dev/ram0 0"'


def _arm(name):
    return Group(f"accept-{name}", f"accept.sh {name}", disks=(), quick=name != "off",
                 append=_ram_disk(192) + _SLOW_DISK.format(192 << 11))


ZSWAP = (Group("zswap-lz4", "zswap.sh lz4"), Group("zswap-zstd", "zswap.sh zstd"))
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
    # Virtual slots without a device, against zswap on a disk, and zram. What does not
    # compress stays in memory there: suite "device" has it.
    "virtual": tuple(
        dataclasses.replace(group, env=("INCOMPRESSIBLE=0", "MIXED=0"))
        for group in (*ZSWAP, USEMEM_ZSWAP, LOCK_GROUP, HOLD_GROUP)),
    # Virtual slots on devices, against entries of the device. Of the pages in zswap, 30 % do
    # not compress, which each kernel keeps as they are.
    "device": (
        DISK,
        Group("zswap-lz4-30", "zswap.sh lz4 -30%", quick=False),
        Group("zram", "zram.sh lz4", disks=()),
        USEMEM_DISK,
        WRITEBACK[0],
        dataclasses.replace(WRITEBACK[1], quick=False),
        Group("pieces", "pieces.sh", disks=(), append=_ram_disk(64)),
    ),
    # What the layer costs while it is off, also after it and zswap were on.
    "off": (
        ZSWAP[0],
        Group("off", "off.sh", disks=(), append=_ram_disk(64)),
    ),
    # What a device is for that is not as fast as memory: swapoff and zswap's writeback keep
    # it busy, or wait for it. And swapoff of pages that many processes share.
    "slow": (
        Group("swapoff", "swapoff.sh /dev/ram0 1 10 100", disks=(), append=_ram_disk(64)),
        Group("swapoff-slow", "swapoff.sh /dev/dm-0 1", disks=(), append=_SLOW_64M),
        Group("writeback-slow", "writeback.sh lz4 /dev/dm-0", disks=(), append=_SLOW_64M),
    ),
    # A small guest whose memory is full, and one that has to kill. There the guest's programs are
    # where nothing can swap them out: only with virtual slots could some be, and that is not what
    # is measured.
    "small": (
        Group("small", "small.sh", mem="128M"),
        Group("oom", "oom.sh none", mem="256M", disks=(), append="rootfstype=ramfs"),
        Group("oom-swapmax", "oom.sh swapmax", mem="256M"),
    ),
    # What it is worth that zswap's worker goes on until the pool can accept again.
    "accept": (_arm("off"), _arm("once"), _arm("full")),
    # Kernel memory for each page that is swapped out.
    "memory": tuple(Group(f"memory-{name}", f"memory.sh {name}", mem="1536M", disks=("1100M",),
                          timeout=3000) for name in ("zswap", "zero", "disk")),
    # What must not cost more because there are many cgroups.
    "cgroups": (Group("cgroups", "cgroups.sh 50 1000", mem="1G", disks=("256M",)),),
    # A compiler in a cgroup that is too small for it, more so or less.
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

# What a suite compares, unless --variants says so.
VARIANTS = {"zswap": "vswap-c,vswap", "accept": "hooks",
            "virtual": "base,base-zram,zswap,vswap,vswap-on",
            "small": "base,base-zram,vswap-on", "cgroups": "base,vswap-device",
            "device": "base,vswap,vswap-device", "slow": "base,vswap-device",
            "compile": "base,base-zram,vswap,vswap-on", "apps": "base,vswap-device",
            "memory": "base,vswap-on,vswap-device", "off": "base,vswap,vswap-was-on",
            "swapin": "base,vswap-none,vswap-bypass,vswap-large,vswap-device,vswap-policy"}
# A variant switched differently, or zram in the place of zswap: (the build, more kernel
# arguments, more "NAME=value").
ARMS = {"base-zram": ("base", "", ("SWAPDEV=zram",)),
        "vswap-on": ("vswap", " vswap=on", ("SWAPDEV=none",)),
        "locks-on": ("locks", " vswap=on", ("SWAPDEV=none",)),
        "vswap-device": ("vswap", " vswap=on", ()),
        # Switched off again before anything is swapped out.
        "vswap-was-on": ("vswap", " vswap=on", ("VSWAP_OFF=1",)),
        # Virtual slots, and what the swap-in policy does one after the other.
        "vswap-none": ("vswap", " vswap=on", ("SWAPIN_OFF=enabled",)),
        "vswap-bypass": ("vswap", " vswap=on", ("'SWAPIN_OFF=large map_around'",)),
        "vswap-large": ("vswap", " vswap=on", ("SWAPIN_OFF=map_around",)),
        # All of it, without virtual slots.
        "vswap-policy": ("vswap", "", ("SWAPIN_ON=enabled",))}
# The counters that a suite is about, in a table of their own.
COUNTERS = {"accept": ("pswpin", "pswpout", "zswpin", "zswpout", "zswpwb", "s:pool_limit_hit",
                       "s:reject_reclaim_fail"),
            "device": ("mthp_swpout", "mthp_swpout_fallback", "mthp_split"),
            "small": ("lat_p50_ns", "lat_p99_ns", "lat_max_ns", "elapsed_ns", "pgmajfault",
                      "allocstall_normal", "allocstall_movable", "oom_kill"),
            "slow": ("zswpwb", "s:reads", "s:read_sectors", "s:writes", "s:write_sectors"),
            "compile": ("zswpin", "zswpout", "swap_ra", "swap_ra_hit", "pgmajfault",
                        "workingset_refault_file", "anon_kb", "anon_most_kb", "lat_p50_ns",
                        "lat_p99_ns", "lat_max_ns")}

# (swapload's command, its phase) -> the row's last word. All else a run prints
# stays in the JSON, but is no result: the fill, a refault's own swap-out.
ROWS = {
    ("free", "swapout"): "swap-out",
    ("free", "free"): "free",
    ("free", "settle"): "free, work left to others",
    ("refault", "refault"): "refault",
    ("fork", "fork"): "fork",
    ("fork", "exit"): "exit of the child",
    ("swapoff", "swapoff"): "swapoff",
    ("swapoff", "touch"): "touch after swapoff",
    ("usemem", "usemem"): "fill",
    ("usemem", "reread"): "read again",
    ("usemem", "free"): "free",
    ("stream", "stream"): "stream",
    ("writeback", "writeback"): "writeback",
    ("run", "run"): "run",
    ("run", "sys"): "of that in the kernel",
    ("run", "elapsed"): "from its start to its end",
    ("run", "fault"): "a major fault",
    ("run", "set"): "a request to set",
    ("run", "get"): "a request to get",
    ("run", "read"): "a page that is read",
}
# Not on User Mode Linux: what faults costs there what the host's signals cost.
NOT_NATIVE = {"touch after swapoff", "refault"}

# Runs of a group by clock: (normally, with --quick). An icount run is exact for its
# input; runs differ by input (contents, orders), so that a ratio holds for more
# than one trajectory of reclaim.
RUNS = {ICOUNT: (3, 1), WALL: (8, 3), TIME: (8, 3), LOCKS: (1, 1)}

# Where the variants live on each clock.
NATIVE = {"base": "um-base", "vswap": "um"}
LOCK_VARIANT = {"base": "locks-c", "vswap": "locks", "vswap-c": "locks-c", "vswap-on": "locks-on"}


def built(variant):
    """The build that a name given to --variants stands for."""
    return ARMS[variant][0] if variant in ARMS else variant


def script_text(group, quick, run=0, more=()):
    """What the guest runs: the environment, then the case."""
    name, *arguments = group.script.split()
    env = [f"QUICK={int(quick)}", f"RUN={run}", *group.env, *more]
    return "".join(f"export {item}\n" for item in env) + \
        f"exec sh /vswap/bench/{name} {' '.join(arguments)}\n"


def parse_line(line):
    """'swapload a=1 b=x' -> ('swapload', {'a': '1', 'b': 'x'})."""
    kind, _, rest = line.partition(" ")
    return kind, dict(word.split("=", 1) for word in rest.split() if "=" in word)


def number(text):
    """Text, or the number it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_output(text):
    """A guest's output -> (info, rows, locks). A row has its name, its figure
    in ns per page and all that swapload printed with it."""
    info, rows, locks = {}, [], []
    command = {}
    for line in text.splitlines():
        kind, fields = parse_line(line)
        if kind == "info":
            info.update(fields)
        elif kind == "lockstat":
            locks.append({key: number(value) for key, value in fields.items()})
        elif kind == "swapload" and fields.get("phase") == "config":
            command[fields["tag"]] = fields
        elif kind == "swapload" and "ns_per_page" in fields:
            config = command.get(fields["tag"], {})
            word = ROWS.get((config.get("command"), fields["phase"]))
            values = {key: number(value) for key, value in fields.items()}
            rows.append({"tag": fields["tag"], "row": word, "command": config.get("command"),
                         "config": config, **values})
    return info, rows, locks
