# SPDX-License-Identifier: GPL-2.0
"""The guest's initramfs: busybox, our C workloads, the scripts.

It is written as a cpio archive (newc format) without any tool. So device nodes need no root, and
the same input gives the same bytes.
"""

import hashlib
import os
import pathlib
import stat
import threading

from . import arch as archs
from . import setup
from .common import CACHE, ROOT, die, run

GUEST = ROOT / "kunit" / "guest"
PAGE = 4096     # default of PAGE in guestlib.h


class Cpio:
    """An archive in memory; folders are added as they are needed."""

    def __init__(self):
        self.out = bytearray()
        self.known = {""}
        self.count = 0

    def _entry(self, name, mode, data=b"", rdev=(0, 0)):
        self.count += 1
        raw = name.encode() + b"\0"
        fields = [self.count, mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(raw), 0]
        self.out += b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        self.out += b"\0" * (-len(self.out) % 4)
        self.out += data
        self.out += b"\0" * (-len(self.out) % 4)

    def _parents(self, name):
        for parent in reversed(pathlib.PurePosixPath(name).parents):
            parent = "" if str(parent) == "." else str(parent)
            if parent not in self.known:
                self.known.add(parent)
                self._entry(parent, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o755):
        name = name.lstrip("/")
        self._parents(name)
        self._entry(name, stat.S_IFREG | mode, data)

    def device(self, name, major, minor):
        self._parents(name)
        self._entry(name, stat.S_IFCHR | 0o600, rdev=(major, minor))

    def finish(self):
        self.count = -1
        self._entry("TRAILER!!!", 0)
        self.out += b"\0" * (-len(self.out) % 512)
        return bytes(self.out)


def compiler(arch, page_size):
    """Returns the command that compiles a program of the guest. Arrays have the length of a page,
    so a program is made for one page size and refuses to run with another (guestlib.h)."""
    return [f"clang-{setup.LLVM}",
            *([f"--target={arch.target}", f"-fuse-ld=lld-{setup.LLVM}"] if arch.target else []),
            *([f"-DPAGE={page_size}UL"] if page_size != PAGE else []),
            "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror", "-std=gnu11"]


def workloads(arch=archs.X86_64, page_size=PAGE):
    """Compiles kunit/guest/*.c and files of the architecture, each into a static program of the
    same name. Files without a main() are linked with all others."""
    sources = sorted([*GUEST.glob("*.c"), *(GUEST / arch.name).glob("*.c")])
    headers = sorted(GUEST.glob("*.h"))
    flags = compiler(arch, page_size)
    stamp = hashlib.sha256(" ".join(flags).encode())
    for path in sources + headers:
        stamp.update(path.name.encode() + path.read_bytes())
    folder = CACHE / "guest" / stamp.hexdigest()[:16]
    common_files = [path for path in sources if " main(" not in path.read_text()]
    programs = {}
    for path in sources:
        if path in common_files:
            continue
        binary = folder / path.stem
        if not binary.exists():
            folder.mkdir(parents=True, exist_ok=True)
            # Two guests may be prepared at the same time.
            temp = binary.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            run([*flags, "-o", temp, path, *common_files, "-lm"], env=setup.tool_env())
            temp.rename(binary)
        programs[path.stem] = binary
    return programs


def base(arch, page_size):
    """Returns an archive with busybox, init, workloads and the guest scripts."""
    busybox = setup.busybox(arch)
    if not busybox.exists():
        die(f"no {busybox}", "scripts/vswap setup; build the variant to fetch that of another "
            "architecture")
    archive = Cpio()
    archive.device("dev/console", 5, 1)
    archive.device("dev/null", 1, 3)
    archive.file("bin/busybox", busybox.read_bytes())
    archive.file("init", (GUEST / "init").read_bytes())
    for name, binary in workloads(arch, page_size).items():
        archive.file(f"vswap/bin/{name}", binary.read_bytes())
    # For guests with the root file system of the host, which has Python.
    archive.file("vswap/bin/vswap-stat", (ROOT / "tools/mm/vswap-stat").read_bytes())
    for script in sorted(GUEST.rglob("*.sh")):
        archive.file(f"vswap/{script.relative_to(GUEST)}", script.read_bytes())
    return archive


def build(path, script, files=None, arch=archs.X86_64, page_size=PAGE):
    """Writes the archive of one boot; `files` maps guest paths to host paths."""
    archive = base(arch, page_size)
    archive.file("vswap/script", script.encode())
    for name, source in (files or {}).items():
        archive.file(name, pathlib.Path(source).read_bytes())
    pathlib.Path(path).write_bytes(archive.finish())
