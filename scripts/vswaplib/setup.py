# SPDX-License-Identifier: GPL-2.0
"""Installs the tools and fetches the kernel source.

Checks everything first and installs only what is missing, so that a rerun takes a fraction of a
second. Every other verb calls ensure().
"""

import contextlib
import functools
import os
import pathlib
import platform
import re
import shlex
import shutil
import tempfile

from . import arch as archs
from . import common
from .common import CACHE, LLVM, ROOT, TOOLS, die, run, say, step

BINDGEN = "0.72.1"
QEMU_MIN = (10, 0)  # 7.2 crashed two-CPU guests that use CONFIG_JUMP_LABEL
KERNEL_SERIES = ("7", "3")
BASE_VERSION = "7.3.4"  # version of the patches; on later 7.3.y they apply with offsets

PACKAGES = f"""
clang-{LLVM} lld-{LLVM} llvm-{LLVM} libclang-{LLVM}-dev libclang-rt-{LLVM}-dev
rustc-web rust-web-src cargo-web rustfmt-web rust-web-clippy
gcc libc6-dev make flex bison bc libelf-dev libssl-dev kmod cpio pahole sparse
patch xz-utils rsync git perl busybox-static e2fsprogs libcap-dev libnuma-dev
stress-ng numactl fio redis-tools ca-certificates
""".split()

APT_ENV = {"DEBIAN_FRONTEND": "noninteractive"}
LOG = common.LOGS / "setup.log"


def rust_tool(name):
    """Returns a tool of Debian's Rust. In PATH, one of rustup may come first."""
    return f"/usr/bin/{name}"


def cargo_env(what):
    """Returns cargo's environment: builds go outside of the checkout, and the user's settings are
    ignored. Each checkout has its own folder, because cargo would take builds of another checkout
    for its own and up to date."""
    checkout = common.digest(str(ROOT))[:8]
    return {"CARGO": rust_tool("cargo"), "CARGO_TERM_COLOR": "never",
            "CARGO_TARGET_DIR": str(CACHE / "cargo" / checkout / what)}


# --- what the machine has to have ------------------------------------------

GIB = 1 << 30
# The size of a cache with all kernels, and the room that another build needs.
FIRST_ROOM, ROOM = 20 * GIB, 2 * GIB
# Enough for two compilers and two guests at a time.
MEMORY = 4 * GIB
ANOTHER = "or name another folder: VSWAP_CACHE=DIR scripts/vswap ..."


def check_room(folder, needed):
    """Fails if the disk of a folder has no room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        die(f"{folder} has room for {free / GIB:.1f} GiB, and {needed / GIB:.1f} are needed",
            f"make room, {ANOTHER}")


def check_machine():
    """Fails with one line, before anything is installed, if the machine lacks room or memory.
    Otherwise a run would fail after half an hour."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=CACHE):
            pass
    except OSError as error:
        die(f"{CACHE} cannot be written: {error.strerror}", f"make it yours, {ANOTHER}")
    check_room(CACHE, ROOM if kernel_home() else FIRST_ROOM)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory < MEMORY:
        die(f"this machine has {memory / GIB:.1f} GiB of memory, and {MEMORY // GIB} are needed "
            "to build a kernel and to boot two", "use a larger one")


def root_prefix():
    """Returns the prefix that runs a command as root without a password, or None."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and run(["sudo", "-n", "true"], check=False).returncode == 0:
        return ["sudo", "--preserve-env=DEBIAN_FRONTEND"]
    return None


def missing_packages(names):
    shown = run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *names], check=False)
    have = {line.split()[0] for line in shown.text.splitlines()
            if line.endswith("install ok installed")}
    return [name for name in names if name not in have]


def os_release():
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release()
    return {}


def machine_mirror():
    """Returns the archive of Debian that this machine's apt uses."""
    listed = run(["apt-get", "indextargets", "--no-release-info", "--format",
                  "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"])
    # Suites with a dash are updates. Most mirrors have this name, and others are no mirror.
    found = re.findall(r"^(\S+) \w+ main$", listed.text, re.M)
    found.sort(key=lambda uri: not uri.endswith("debian/"))
    if found:
        return found[0]
    die("no Debian archive found in this machine's apt configuration",
        "give a kernel tree with --kernel DIR and install QEMU 10 by hand")


def isolated_apt(*suites, debian=""):
    """Returns apt-get options for suites, or an architecture, that the machine's own apt does not
    follow.

    Lists and packages are kept in our cache, so that the machine's configuration does not change.
    Packages are still verified against Debian's archive key.
    """
    base = CACHE / "apt" / "-".join([*suites, *([debian] if debian else [])])
    for folder in ("sources", "lists/partial", "cache/archives/partial"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    mirror = machine_mirror().rstrip("/")
    # The security suite is in an archive of its own, which is named after the other one.
    common.write_if_changed(base / "sources" / "vswap.sources", "\n".join(
        f"Types: deb\nURIs: {mirror}{'-security' if suite.endswith('-security') else ''}\n"
        f"Suites: {suite}\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n" for suite in suites))
    options = {"Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": base / "sources",
               "Dir::State::Lists": base / "lists", "Dir::Cache": base / "cache",
               "APT::Sandbox::User": "root"}
    if debian:
        # Packages installed on this machine are of another architecture.
        options |= {"APT::Architecture": debian, "APT::Architectures": debian,
                    "Dir::State::status": "/dev/null"}
    common.write_if_changed(base / "apt.conf", "".join(
        f'{name} "{value}";\n' for name, value in options.items()))
    return ["-c", str(base / "apt.conf")]


def follows(suite):
    """Returns true if the machine's own apt follows a suite."""
    listed = run(["apt-get", "indextargets", "--no-release-info", "--format", "$(RELEASE)"])
    return suite in listed.text.split()


def apt_commands(options, *words):
    """Returns the commands that install packages from current lists."""
    return [["apt-get", *options, "update"],
            ["apt-get", *options, "install", "-y", "--no-install-recommends", *words]]


def packages_wanted(names):
    """Returns (missing packages as text, commands for root that install them)."""
    missing = missing_packages(names) if shutil.which("dpkg-query") else list(names)
    if not missing:
        return "", []
    if not shutil.which("apt-get"):
        die("this machine has no apt-get, and packages are missing: " + " ".join(missing),
            "use Debian 12, or install the equivalents by hand")
    options = []
    # Our clang and rustc are in the security suite, which debootstrap does not configure.
    if os_release().get("VERSION_CODENAME") == "bookworm" and not follows("bookworm-security"):
        options = isolated_apt("bookworm", "bookworm-updates", "bookworm-security")
    return "packages are missing: " + " ".join(missing), apt_commands(options, *missing)


def qemu_version(arch=archs.X86_64):
    if not shutil.which(arch.qemu):
        return None
    found = re.search(r"version (\d+)\.(\d+)", run([arch.qemu, "--version"]).text)
    return tuple(map(int, found.groups())) if found else None


def qemu_wanted(arch):
    """Like packages_wanted(), for QEMU."""
    have = qemu_version(arch)
    if have and have >= QEMU_MIN:
        return "", []
    options, target = [], []
    if os_release().get("VERSION_CODENAME") == "bookworm":
        options = isolated_apt("bookworm", "bookworm-updates", "bookworm-backports")
        target = ["-t", "bookworm-backports"]
    return (f"{arch.qemu} {have[0]}.{have[1]} is too old" if have else f"{arch.qemu} is missing",
            apt_commands(options, *target, arch.qemu_package))


def install(names=PACKAGES, arch=archs.X86_64):
    """Installs packages and QEMU if they are missing. A user without the right to do so gets all
    commands at once."""
    wanted = [found for found in (packages_wanted(names), qemu_wanted(arch)) if found[1]]
    if not wanted:
        return
    commands = [command for _, some in wanted for command in some]
    prefix = root_prefix()
    if prefix is None:
        first = "sudo " if shutil.which("sudo") else ""
        die("; ".join(why for why, _ in wanted) + "; and this user may not install them",
            ("type" if first else "as root, type") + " these, and run this again:\n"
            + "\n".join(f"    {first}{shlex.join(map(str, command))}" for command in commands))
    for why, some in wanted:
        with step(f"{why}: installing with apt"):
            for command in some:
                run([*prefix, *command], log=LOG, env=APT_ENV, show=True,
                    hint="is the network up? Debian 12 with its security suite has all packages; "
                         "scripts/vswap setup can be rerun at any time")
    have = qemu_version(arch)
    if not have or have < QEMU_MIN:
        die(f"{arch.qemu} {QEMU_MIN[0]}.{QEMU_MIN[1]} or newer is needed, and apt did not bring it",
            f"put a newer {arch.qemu} into /usr/local/bin")


def busybox(arch=archs.X86_64):
    """Returns the static busybox for guests of an architecture."""
    return TOOLS / f"busybox-{arch.debian}" if arch.debian else pathlib.Path("/bin/busybox")


@contextlib.contextmanager
def fetched(package, options, about, hint):
    """Fetches a package of Debian with these options of apt-get, without installing it. Gives the
    folder with its files, which is removed after the block unless that fails."""
    work = CACHE / f"fetch-{package}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with step(f"fetching Debian's {package}{about}"):
        run(["apt-get", *options, "update"], log=LOG, env=APT_ENV, hint=hint)
        run(["apt-get", *options, "download", package], log=LOG, cwd=work, env=APT_ENV, hint=hint)
        run(["dpkg-deb", "-x", next(work.glob(f"{package}_*.deb")), work / "deb"], log=LOG)
    yield work / "deb"
    shutil.rmtree(work)


def fetch_busybox(arch):
    """Fetches Debian's busybox-static of another architecture, without installing it."""
    binary = busybox(arch)
    if binary.exists():
        return
    options = isolated_apt(os_release().get("VERSION_CODENAME", "bookworm"), debian=arch.debian)
    with fetched("busybox-static", options, f" for {arch.debian}", "is the network up, and has "
                 f"this machine's Debian archive {arch.debian}?") as files:
        binary.parent.mkdir(parents=True, exist_ok=True)
        os.replace(files / "bin" / "busybox", binary)


def cargo_install(package, version, takes, name, *words):
    """Builds a tool with cargo unless it is there: `words` and --version print its version.
    Returns its path."""
    binary = TOOLS / "bin" / name
    if not binary.exists() or version not in run([binary, *words, "--version"], check=False).text:
        with step(f"building {name} {version} with cargo ({takes})"):
            run([rust_tool("cargo"), "install", package, "--version", version, "--locked",
                 "--force", "--root", TOOLS], log=LOG, show=True,
                hint="cargo fetches it from its registry: is the network up?")
    return binary


# --- kernel source ---------------------------------------------------------

def version_of(tree, hint="give a 7.3.y tree"):
    """Returns the version of a tree, as text. Fails if the series is not made for it."""
    makefile = ""
    with contextlib.suppress(OSError):
        makefile = (tree / "Makefile").read_text()
    found = [re.search(rf"^{key} = *(\S*)$", makefile, re.M)
             for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL", "EXTRAVERSION")]
    if not all(found):
        die(f"{tree} is not a Linux source tree", "give the top of a Linux 7.3.y tree")
    *version, extra = [part.group(1) for part in found]
    text = ".".join(version) + extra
    if tuple(version[:2]) != KERNEL_SERIES:
        die(f"{tree} is Linux {text}; rust-vswap is made for Linux 7.3.y", hint)
    return text


def check_tree(tree):
    """Returns the version of a usable tree, as text. Otherwise fails and says what is wrong."""
    text = version_of(tree, "give a 7.3.y tree, or no --kernel to fetch one")
    if not (tree / "mm/swap_table.h").exists():
        die(f"{tree} lacks mm/swap_table.h: not a complete Linux {text} tree",
            "unpack it again")
    if (tree / ".config").exists() or (tree / "include/config").exists():
        die(f"{tree} was built in place, which spoils builds outside of it",
            f"make -C {tree} mrproper (it deletes that tree's .config)")
    return text


def kernel_home():
    """Returns (folder of our trees and builds, pristine tree) of the chosen kernel, or None."""
    given = os.environ.get("VSWAP_KERNEL")
    if given:
        tree = pathlib.Path(given)
        version = check_tree(tree)
        tag = common.digest(str(tree))[:8]
        return CACHE / "kernel" / f"{version}-{tag}", tree
    homes = [path.parents[1] for path in (CACHE / "kernel").glob("*/linux/.vswap-complete")
             if "-" not in path.parents[1].name]
    if not homes:
        return None
    home = max(homes, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])
    return home, home / "linux"


def fetch_debian():
    """Fetches the kernel source. Its marker is written last."""
    package = "linux-source-7.3"
    with fetched(package, isolated_apt("trixie-backports"),
                 " (167 MB, checked against Debian's key)",
                 "is the network up? Or unpack a Linux 7.3.y of kernel.org, and give it with "
                 "--kernel DIR") as files, \
            step("unpacking the kernel source"):
        run(["tar", "-C", files, "-xJf", files / f"usr/src/{package}.tar.xz"], log=LOG)
        version = check_tree(files / package)
        place = CACHE / "kernel" / version / "linux"
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(files / package, place)
        (place / ".vswap-complete").write_text(version + "\n")
        say(f"    kernel source: Linux {version}")


def kernel_code():
    """Returns a hash of the files of this checkout that kernels are built from."""
    tops = ("include", "kunit/configs", "mm", "patches", "rust", "tools")
    paths = [path for top in tops for path in sorted((ROOT / top).rglob("*"))]
    return common.digest(*filter(pathlib.Path.is_file, paths))


@functools.cache
def ensure():
    """Installs and fetches what is missing. Fast if nothing is."""
    check_machine()
    with common.locked("setup"):
        install()
        cargo_install("bindgen-cli", BINDGEN, "about a minute", "bindgen")
        if not kernel_home():
            fetch_debian()
    # Before all locks but that of setup, so that no process waits for this one in vain. Another
    # checkout would change the tree during a build, and kernels before they are booted.
    common.share(f"kernels-{kernel_home()[0].name}", kernel_code())


def ensure_guests(arch):
    """Installs what guests of another architecture than the host's need. Fast if it is there."""
    if not arch.target:
        return
    with common.locked("setup"):
        install(list(arch.libraries), arch)
        fetch_busybox(arch)


def main(_args):
    ensure()
    home, tree = kernel_home()
    say(f"ready: Linux {check_tree(tree)} in {tree}, builds in {home / 'build'}")
    return 0
