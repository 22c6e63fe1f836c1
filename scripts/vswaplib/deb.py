# SPDX-License-Identifier: GPL-2.0
"""deb: makes an installable Debian package of the kernel.

The configuration is the user's, with the options of the virtual swap space switched on. Options
that Kconfig switches off for them are listed before the build begins, because a package that lacks
a driver does not boot. The kernel's own bindeb-pkg makes the packages.
"""

import gzip
import lzma
import os
import pathlib
import re
import shutil

from . import build, common, setup, tree
from .common import die, say, step

PACKAGES = ["debhelper", "dpkg-dev", "fakeroot", "libdw-dev"]
# Debian's configurations for the machine's architecture, in the suite of the kernel source.
DEBIAN = "linux-config-7.3"
DEBIAN_CONFIG = f"usr/src/{DEBIAN}/config.amd64_none_amd64.xz"
LOCALVERSION = "-vswap"
# Where the configuration of the running kernel may be.
RUNNING = (pathlib.Path(f"/boot/config-{os.uname().release}"), pathlib.Path("/proc/config.gz"))

# Options that the package must have.
WANTED = ("CONFIG_RUST", "CONFIG_SWAP", "CONFIG_ZSWAP", "CONFIG_RUST_ZSWAP", "CONFIG_RUST_VSWAP")
# Options that conflict with CONFIG_RUST: BTF needs a newer pahole than Debian 12 has, and symbol
# versions need debugging information, which makes a build three times as large. Also the keys that
# a distribution signs with, which do not exist here.
CHANGED = {"CONFIG_DEBUG_INFO_NONE": "y", "CONFIG_MODVERSIONS": "n",
           "CONFIG_RANDSTRUCT_NONE": "y", "CONFIG_SYSTEM_TRUSTED_KEYS": '""',
           "CONFIG_SYSTEM_REVOCATION_KEYS": '""', "CONFIG_LOCALVERSION_AUTO": "n"}

CLOSING = """
install:
    {sudo}apt install {packages}
switch it on: write the words to GRUB_CMDLINE_LINUX in /etc/default/grub,
    vswap=on zswap.enabled=1
then
    {sudo}update-grub && {sudo}reboot
see it work, and remove it:
    {sudo}{stat}
    {sudo}apt purge {names}"""


def debian_config():
    """Returns the configuration of Debian's kernel 7.3: (where it is from, text)."""
    hint = "is the network up? Or give a configuration: scripts/vswap deb --config FILE"
    with setup.fetched(DEBIAN, setup.isolated_apt("trixie-backports"), "", hint) as files:
        return f"Debian's {DEBIAN}", lzma.decompress((files / DEBIAN_CONFIG).read_bytes()).decode()


# Options that name another architecture in a .config. A minimal one of 32-bit x86 has no such
# option.
FOREIGN = re.compile(r"^(CONFIG_(?:ALPHA|ARC|ARM|ARM64|CSKY|HEXAGON|LOONGARCH|M68K|MICROBLAZE|MIPS"
                     r"|NIOS2|OPENRISC|PARISC|PPC|RISCV|S390|SPARC|SUPERH|UML|X86_32|XTENSA)=y"
                     r"|# CONFIG_64BIT is not set)$", re.M)


def check_arch(where, text):
    """Refuses a .config of another architecture, because Kconfig would accept it and silently drop
    each line that it does not know."""
    foreign = FOREIGN.search(text)
    if foreign:
        die(f"{where} is of another architecture ({foreign.group().lstrip('# ')}), and the "
            "package is for x86_64", "give the .config of an x86_64 kernel with --config FILE")


def file_config(path):
    """Returns the configuration in a file: (where it is, text)."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    except (OSError, ValueError, EOFError) as error:
        die(f"cannot read {path}: {getattr(error, 'strerror', None) or error}",
            "give the .config of a kernel with --config FILE, or Debian's with --config debian")
    if not re.search(r"^CONFIG_\w+=", text, re.M):
        die(f"{path} is no configuration of a kernel", "give a file with lines as CONFIG_SWAP=y")
    check_arch(path, text)
    return str(path), text


def given_config(name):
    """Returns the configuration that the user named, or else the running kernel's: (where it is,
    text). Returns None for Debian's."""
    paths = [pathlib.Path(name)] if name not in (None, "debian") else \
        [path for path in RUNNING if not name and os.access(path, os.R_OK)]
    return file_config(paths[0]) if paths else None


# Options that depend on the machine or the compiler, not on a choice.
DERIVED = re.compile(r"CONFIG_(DEBUG_INFO|PAHOLE_HAS|PROBE_EVENTS_BTF|ARCH_|HAVE_|GENERIC_"
                     r"|(CC|AS|LD|TOOLS|RUSTC?|GCC)_)|.*(_SUPPORTS_|_CC_|_HAS_)")


def lost(before, after):
    """Returns options that were on and are off now, except debugging information and derived
    options."""
    return sorted(name for name, value in before.items() if value in ("y", "m")
                  and after.get(name, "n") == "n" and not DERIVED.match(name))


def configure(builddir, srctree, args, text):
    """Writes .config. Returns the options that were switched off in favour of ours."""
    changed = {**CHANGED, **{name: "y" for name in WANTED}}
    lines = [line for line in text.splitlines()
             if (re.match(r"(?:# )?(CONFIG_\w+)[= ]", line) or [None, ""])[1] not in changed]
    lines += [f"{name}={value}" for name, value in changed.items()]
    log = builddir / "config.log"
    log.unlink(missing_ok=True)
    common.write_if_changed(builddir / ".config", "\n".join(lines) + "\n")
    build.make(builddir, srctree, args, "olddefconfig", log=log)
    have = build.wanted_options([builddir / ".config"])
    refused = [name for name in WANTED if have.get(name) != "y"]
    if refused:
        die("this configuration does not take " + ", ".join(refused),
            f"a dependency is off: see 'depends on' of the option in {srctree}; log: {log}")
    return lost(build.options_of(text), have)


def report_options(where, builddir, gone):
    """Prints what the configuration has and what it lost. Returns the number of modules."""
    have = build.wanted_options([builddir / ".config"])
    modules = sum(value == "m" for value in have.values())
    say(f"    {where}: {modules} modules; on: "
        + " ".join(name.removeprefix("CONFIG_") for name in WANTED))
    everything = builddir / "options-lost.txt"
    everything.write_text("".join(f"{name}\n" for name in gone))
    say("    off: debugging information" + (
        f", and {len(gone)} options that this kernel or clang does not have, or an option above "
        f"excludes ({everything})" if gone else ""))
    return modules


def check_room(folder, modules):
    """Fails before hours of compiling if the disk has no room. A module takes a MiB for objects
    and package."""
    setup.check_room(folder, 3 * setup.GIB + modules * (1 << 20))


def add_arguments(parser):
    parser.add_argument("--config", metavar="FILE",
                        help="a .config, or the word debian for that of Debian's kernel 7.3 "
                             "(default: the running kernel's, or else Debian's)")
    parser.add_argument("--out", metavar="DIR", default=".",
                        help="where the packages go (default: the current folder)")


def packages_in(folder):
    """Returns the packages of a build, and all files that bindeb-pkg has written."""
    found = sorted(path for path in folder.iterdir()
                   if path.suffix in (".deb", ".changes", ".buildinfo"))
    return [path for path in found
            if path.name.startswith(("linux-image-", "linux-headers-"))], found


def copied(package, out):
    """Copies a package to the folder that the user named; returns the copy."""
    target = out / package.name
    try:
        shutil.copyfile(package, target)
    except OSError as error:
        target.unlink(missing_ok=True)
        die(f"cannot write {target}: {error.strerror}",
            f"make room: a rerun compiles nothing anew. The package is {package}")
    return target


def main(args):
    out = pathlib.Path(args.out).absolute()
    if not os.access(out, os.W_OK):
        die(f"{out} cannot be written", "name another folder with --out DIR")
    # Read the file before installing tools and waiting for locks.
    given = given_config(args.config)
    setup.ensure()
    with common.locked("setup"):
        setup.install(PACKAGES)
    with common.locked("build-deb"):
        where, text = given or debian_config()
        srctree, home = tree.vswap(), tree.home() / "deb"
        builddir = home / "build"
        builddir.mkdir(parents=True, exist_ok=True)
        flags = [*build.make_args(), f"LOCALVERSION={LOCALVERSION}"]
        with step(f"configuring the kernel of {where}"):
            gone = configure(builddir, srctree, flags, text)
        modules = report_options(where, builddir, gone)
        check_room(home, modules)
        log = builddir / "build.log"
        log.unlink(missing_ok=True)
        for path in packages_in(home)[1]:
            path.unlink()
        with step(f"building it with {common.JOBS} jobs ("
                  + ("hours" if modules > 500 else "10 to 30 minutes") + f"); log: {log}"):
            build.make(builddir, srctree, [*flags, "DPKG_FLAGS=--build-profiles="
                                           "pkg.linux-upstream.nokerneldbg"],
                       "bindeb-pkg", log=log, show=True)
        packages = [copied(path, out) for path in packages_in(home)[0]]
    names = [path.name.split("_")[0] for path in packages]
    say(CLOSING.format(sudo="" if os.geteuid() == 0 else "sudo ",
                       packages=" ".join(map(str, packages)), names=" ".join(names),
                       stat=common.ROOT / "tools/mm/vswap-stat"))
    return 0
