# SPDX-License-Identifier: GPL-2.0
"""Configures and builds the kernel variants."""

import concurrent.futures
import re
import time

from . import arch as archs
from . import common, counters, setup, tree
from .common import ROOT, die, run, say

BOOT_FRAGMENTS = ("vswap", "kunit", "small", "boots")
# variant -> (has our work, architecture, configuration fragments of kunit/configs)
VARIANTS = {
    "base": (False, "x86_64", ["common", "x86_64"]),
    "vswap": (True, "x86_64", ["common", "x86_64", "vswap"]),
    "debug": (True, "x86_64", ["common", "x86_64", "vswap", "kunit", "debug"]),
    # Only for bench: zswap in C, or alone, in the same tree, lock counts, hooks in zswap, calls of
    # helpers.
    "vswap-c": (True, "x86_64", ["common", "x86_64", "vswap", "zswap-c"]),
    "zswap": (True, "x86_64", ["common", "x86_64", "vswap", "zswap-rust"]),
    "locks": (True, "x86_64", ["common", "x86_64", "vswap", "locks"]),
    "locks-c": (True, "x86_64", ["common", "x86_64", "vswap", "zswap-c", "locks"]),
    "hooks": (True, "x86_64", ["common", "x86_64", "vswap", "hooks"]),
    "no-inline": (True, "x86_64", ["common", "x86_64", "vswap", "no-inline"]),
    # Counts what guests execute of rust/mm.
    "cover": (True, "x86_64", ["common", "x86_64", "vswap", "kunit", "cover"]),
    "um": (True, "um", ["common", "um", "vswap", "kunit", "small"]),
    "um-base": (False, "um", ["common", "um", "small"]),
    # Only for test --full.
    "arm64": (True, "arm64", ["common", "arm64", *BOOT_FRAGMENTS]),
    "arm64-64k": (True, "arm64", ["common", "arm64", *BOOT_FRAGMENTS, "arm64-64k"]),
    "preempt-rt": (True, "x86_64", ["common", "x86_64", *BOOT_FRAGMENTS, "preempt-rt"]),
    "classic-lru": (True, "x86_64", ["common", "x86_64", *BOOT_FRAGMENTS, "classic-lru"]),
    "no-smp": (True, "x86_64", ["common", "x86_64", *BOOT_FRAGMENTS, "no-smp"]),
    "no-memcg": (True, "x86_64", ["common", "x86_64", *BOOT_FRAGMENTS, "no-memcg"]),
}


def variant_of(name):
    if name not in VARIANTS:
        die(f"unknown variant {name!r}", "the variants are: " + ", ".join(VARIANTS))
    return VARIANTS[name]


def arch_of(variant):
    return archs.ALL[variant_of(variant)[1]]


def folder(variant, home=None):
    variant_of(variant)
    return (home or tree.home()) / "build" / variant


def image(variant, home=None):
    return folder(variant, home) / arch_of(variant).image


def page_size(variant):
    """Returns the page size of a variant that was built."""
    return 1 << int(wanted_options([folder(variant) / ".config"])["CONFIG_PAGE_SHIFT"])


def source(variant):
    return tree.vswap() if variant_of(variant)[0] else tree.pristine()


def fragments(names):
    return [ROOT / "kunit" / "configs" / f"{name}.config" for name in names]


def make_args(arch="x86_64", cc="clang"):
    tools = {"RUSTC": "rustc", "HOSTRUSTC": "rustc", "RUSTDOC": "rustdoc", "RUSTFMT": "rustfmt",
             "CLIPPY_DRIVER": "clippy-driver"}
    args = [f"ARCH={arch}", *(f"{name}={setup.rust_tool(tool)}" for name, tool in tools.items()),
            f"BINDGEN={common.TOOLS}/bin/bindgen",
            # Builds are the same on every machine and day.
            "KBUILD_BUILD_USER=vswap", "KBUILD_BUILD_HOST=vswap",
            "KBUILD_BUILD_TIMESTAMP=2026-01-01"]
    return args + ([f"LLVM=-{setup.LLVM}"] if cc == "clang" else [])


def make(builddir, srctree, args, *targets, log=None, names=False, show=False):
    """Runs make. With `names`, it logs what it compiles. With `show`, that is shown meanwhile."""
    return run(["make", *([] if names else ["-s"]), "-C", srctree, f"O={builddir}",
                f"-j{common.JOBS}", *args, *targets], log=log, show=show)


def options_of(text):
    """Returns {option: value} of the options that a configuration sets. Later lines override
    earlier ones."""
    return dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M))


def wanted_options(paths, extra_lines=()):
    """Returns {option: value} of files, followed by more lines."""
    return options_of("\n".join([*(path.read_text() for path in paths), *extra_lines]))


def configure(builddir, srctree, paths, args, extra_lines=(), check=True):
    """Writes .config: everything is off except what the fragments ask for. It is an error if
    Kconfig refuses an option, because a test that silently runs without its checker proves
    nothing."""
    wanted = wanted_options(paths, extra_lines)
    seed = builddir / "wanted.config"
    common.write_if_changed(seed, "".join(f"{key}={value}\n" for key, value in wanted.items()))
    make(builddir, srctree, [*args, f"KCONFIG_ALLCONFIG={seed}"], "allnoconfig",
         log=builddir / "config.log")
    have = wanted_options([builddir / ".config"])
    refused = [f"{key}={value}" for key, value in wanted.items()
               if have.get(key, "n") != value]
    if refused and check:
        die("the kernel's Kconfig did not take: " + ", ".join(refused),
            "a dependency is off: see the option's 'depends on' in the kernel tree")
    return refused


# What begin() builds: {variant: future}.
_begun = {}


def begin(pool, variants):
    """Lets the thread of `pool` build kernels in this order. ensure() waits for them."""
    _begun.update({variant: pool.submit(_build, variant, False) for variant in variants})


def _log(variant):
    return folder(variant) / "build.log"


def _build(variant, show):
    """Builds a variant if anything changed. With `show`, shows what is being compiled."""
    arch = arch_of(variant)
    setup.ensure_guests(arch)
    with common.locked(f"build-{variant}"):
        srctree, builddir, log = source(variant), folder(variant), _log(variant)
        log.unlink(missing_ok=True)
        args = [*make_args(arch.name), *arch.flags, *counters.make_args(variant)]
        configure(builddir, srctree, fragments(variant_of(variant)[2]), args)
        if variant == counters.VARIANT:
            # All objects, and no link of them.
            make(builddir, srctree, args, "vmlinux_a", log=log, names=True, show=show)
            counters.take_maps(builddir)
        make(builddir, srctree, args, *arch.goals, log=log, names=True, show=show)


def ensure(variant):
    """Builds a variant if anything changed, or waits for begin(); returns its image."""
    setup.ensure()
    log = _log(variant)
    first = not image(variant).exists()
    say(f"==> building {variant}" + (" (the first time: 4 to 15 minutes)" if first else "")
        + f"; log: {log}")
    start = time.monotonic()
    if variant in _begun:
        begun = _begun[variant]
        common.show_log(lambda: concurrent.futures.wait([begun], 0.5).done, log)
        begun.result()
    else:
        _build(variant, True)
    say(f"    {variant}: {image(variant)} ({time.monotonic() - start:.0f} s)")
    return image(variant)


def add_arguments(parser):
    parser.add_argument("--variant", default="vswap", choices=list(VARIANTS),
                        help="which kernel (default: vswap)")


def main(args):
    if args.verb == "path":
        # Do not install or fetch anything for this.
        home = setup.kernel_home()
        if not home or not image(args.variant, home[0]).exists():
            die(f"{args.variant} was not built yet",
                f"scripts/vswap build --variant {args.variant}")
        print(image(args.variant, home[0]))
        return 0
    ensure(args.variant)
    return 0
