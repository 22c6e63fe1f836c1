# SPDX-License-Identifier: GPL-2.0
"""The verbs boot and shell."""

import pathlib
import sys

from . import build, guest
from .common import die, say


def add_arguments(parser):
    parser.add_argument("--variant", default="vswap", choices=list(build.VARIANTS))
    if not parser.prog.endswith(" shell"):
        parser.add_argument("--script", metavar="FILE",
                            help="shell script to run in the guest (- or none: standard input)")
        parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS")
        parser.add_argument("--icount", action="store_true",
                            help="the deterministic clock: 1 CPU, 1 instruction is 1 ns")
    parser.add_argument("--smp", type=int, default=2, metavar="N")
    parser.add_argument("--mem", default="1G", metavar="SIZE")
    parser.add_argument("--disk", action="append", default=[], metavar="SIZE",
                        help="a virtio disk (/dev/vda, ...; ubd under UML): a size or an image, "
                             "then options of -drive, as in 256M,throttling.iops-total=500")
    parser.add_argument("--append", default="", metavar="ARGS", help="more kernel arguments")
    parser.add_argument("--numa", action="store_true", help="two NUMA nodes")
    parser.add_argument("--host-root", action="store_true",
                        help="run in the host's root file system (read-only, with an overlay)")


def main(args):
    shared = dict(smp=args.smp, mem=args.mem, disks=args.disk, append=args.append,
                  numa=args.numa, host_root=args.host_root)
    if args.verb == "shell":
        if not build.arch_of(args.variant).qemu:
            die("the shell needs a QEMU variant", "scripts/vswap shell --variant vswap")
        build.ensure(args.variant)
        say("    'exit' or 'poweroff -f' ends the guest")
        guest.boot(args.variant, shell=True, **shared)
        return 0
    if args.script and args.script != "-":
        try:
            script = pathlib.Path(args.script).read_text()
        except OSError as error:
            die(f"cannot read the script: {error}", "give a readable file with --script")
    else:
        say("    type the script for the guest's shell, then Ctrl-D" if sys.stdin.isatty() else
            "    reading the script for the guest's shell from standard input")
        script = sys.stdin.read()
    build.ensure(args.variant)
    result = guest.boot(args.variant, script, icount=args.icount, timeout=args.timeout,
                        quiet=False, allowed=guest.KINDS, **shared)
    say(f"    exit code {result.code} after {result.seconds:.0f} s; kernel log: {result.log}")
    return result.code
