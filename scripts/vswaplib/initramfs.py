# SPDX-License-Identifier: GPL-2.0
"""The guest's initramfs: busybox, our C workloads, the scripts.

It has no device nodes, which would need root: the kernel's own initramfs has /dev/console, and init
mounts a devtmpfs.
"""

import os
import shutil
import threading

from . import arch as archs
from . import setup
from .common import CACHE, ROOT, die, digest, run

GUEST = ROOT / "kunit" / "guest"
PAGE = 4096     # default of PAGE in guestlib.h
# Packs the current folder. The same files give the same bytes.
ARCHIVE = r"""
chmod -R 755 . && find . -exec touch -d @0 {} + &&
find . -mindepth 1 -printf '%P\n' | sort | cpio -o -H newc --reproducible -R 0:0 --quiet > "$0"
"""


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
    flags = compiler(arch, page_size)
    stamp = digest(" ".join(flags), *sources, *sorted(GUEST.glob("*.h")))
    folder = CACHE / "guest" / stamp[:16]
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
            run([*flags, "-o", temp, path, *common_files, "-lm"])
            temp.rename(binary)
        programs[path.stem] = binary
    return programs


def base(arch, page_size):
    """Returns busybox, init, workloads and the guest scripts: {path in the guest: file}."""
    busybox = setup.busybox(arch)
    if not busybox.exists():
        die(f"no {busybox}", "scripts/vswap setup; build the variant to fetch that of another "
            "architecture")
    return {"bin/busybox": busybox, "init": GUEST / "init",
            **{f"vswap/bin/{name}": binary
               for name, binary in workloads(arch, page_size).items()},
            # For guests with the root file system of the host, which has Python.
            "vswap/bin/vswap-stat": ROOT / "tools/mm/vswap-stat",
            **{f"vswap/{script.relative_to(GUEST)}": script for script in GUEST.rglob("*.sh")}}


def build(path, script, files=None, arch=archs.X86_64, page_size=PAGE):
    """Writes the archive of one boot; `files` maps guest paths to host paths."""
    top = path.with_name("root")
    for name, source in {**base(arch, page_size), **(files or {})}.items():
        target = top / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    (top / "vswap/script").write_text(script)
    run(["sh", "-c", ARCHIVE, path], cwd=top)
