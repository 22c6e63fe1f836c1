# SPDX-License-Identifier: GPL-2.0
"""rust-vswap: build, boot, test and measure the virtual swap space."""

import argparse
import importlib
import os
import sys

sys.dont_write_bytecode = True
# Python was started with this folder in sys.path. Replace it by its parent, the package's folder.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from vswaplib import common  # noqa: E402

# verb -> (module in vswaplib, what it does)
VERBS = {
    "run": ("demo", "build the vswap kernel, boot it and show it swapping (the main job)"),
    "test": ("testrun", "lint, host tests, KUnit, guest tests, the kernel's own selftests"),
    "setup": ("setup", "install the tools and fetch the kernel source (all verbs do it)"),
    "build": ("build", "build a variant of the kernel"),
    "boot": ("boot", "boot a variant with a script run in the guest"),
    "shell": ("boot", "boot a variant with an interactive shell"),
    "path": ("build", "print the path of a variant's kernel image"),
    "fuzz": ("fuzz", "run random programs for the swap path, and reduce one that fails"),
    "bench": ("bench", "measure base against vswap, print ratios, write JSON and a page"),
    "unsafe": ("unsafety", "count the lines of rust/mm, its unsafe blocks and its declarations"),
    "apply": ("apply", "put the change into your own Linux 7.3.y tree, as commits where it is git"),
    "deb": ("deb", "build an installable Debian package of the kernel from your .config"),
    "series": ("series", "write the change as a mail-ready patch series"),
}


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/vswap", description=__doc__,
        epilog="Set-up needs nothing by hand: 'scripts/vswap run' and 'scripts/vswap test'.")
    parser.add_argument("--kernel", metavar="DIR",
                        help="use this clean Linux 7.3.y source tree instead of fetching one")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (module, text) in VERBS.items():
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(module=module)
        # Only the verb asked for is imported: the others may need what setup installs.
        if name in sys.argv[1:]:
            add_arguments = getattr(importlib.import_module(f"vswaplib.{module}"),
                                    "add_arguments", None)
            if add_arguments:
                add_arguments(sub)
    args = parser.parse_args()
    # The other modules, and child processes, read the choice from the environment.
    if args.kernel:
        os.environ["VSWAP_KERNEL"] = os.path.abspath(args.kernel)
    return importlib.import_module(f"vswaplib.{args.module}").main(args)


common.main(main)
