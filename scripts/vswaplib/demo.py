# SPDX-License-Identifier: GPL-2.0
"""The verb run: the product's main job, with numbers from real guests."""

import re

from . import build, guest
from .common import say

MEMORY = "512M"


def add_arguments(parser):
    parser.add_argument("--variant", default="vswap", choices=["vswap", "debug"])
    parser.add_argument("--alone", action="store_true", help="without the base kernel beside it")


def main(args):
    build.ensure(args.variant)
    if not args.alone:
        build.ensure("base")
    seen = _boot(args.variant)
    if seen["code"] or "verified" not in seen or "seconds" not in seen:
        say(seen["output"])
        say(f"the data did not verify, or the guest could not run the demo; log: {seen['log']}")
        return 1
    account(seen)
    say(f"    kernel log: {seen['log']}")
    if args.alone:
        return 0
    base = _boot("base")
    say(f"\nThe same on the base kernel, with zswap and no swap device:\n\n  {_fate(base)}")
    say(f"    kernel log: {base['log']}")
    return 0


def _boot(variant):
    say(f"==> booting {variant} with {MEMORY} and no swap device, and filling 730 MiB in it "
        "(two minutes)")
    # The base kernel kills the working set: its own messages are no failure here.
    result = guest.boot(variant, "exec sh /vswap/demo.sh", mem=MEMORY, timeout=900, ensure=False)
    words = re.findall(r"^([a-z_]+) ([0-9.]+)$", result.output, re.M)
    seen = {name: float(value) for name, value in words}
    verified = re.search(r"phase=end verified_pages=(\d+)", result.output)
    if verified:
        seen["verified"] = int(verified.group(1))
    return {**seen, "code": result.code, "output": result.output, "log": result.log}


def _fate(seen):
    if seen.get("oom_kill"):
        return (f"the working set was killed for lack of memory after {seen['seconds']:.1f} s; "
                f"{seen['zswpout']:.0f} pages were swapped out")
    if "verified" in seen and not seen["code"]:
        return f"it finished, {seen['verified']} pages verified"
    return f"it failed with exit code {seen['code']}"


def mib(pages):
    return f"{pages / 256:.0f} MiB"


def account(seen):
    """What happened, for a person to read."""
    pages, slots = seen["verified"], seen["peak_slots"]
    say(f"\nA working set of {mib(pages)} in a guest of {seen['memory_kb'] / 1024:.0f} MiB, with "
        f"{seen['devices']:.0f} swap devices:\n")
    say(f"  swapped out   {mib(seen['zswpout'])} to compressed memory, "
        f"{mib(seen['swpout_zero'])} all zero, {mib(seen['pswpout'])} to a device")
    say(f"  swapped in    {mib(seen['zswpin'])} from compressed memory, "
        f"{mib(seen['swpin_zero'])} zero")
    say(f"  at its peak   {mib(slots)} of virtual slots: {mib(seen['peak_zswap'])} in "
        f"{seen['peak_pool_bytes'] / (1 << 20):.0f} MiB of zswap pool, {mib(seen['peak_zero'])} "
        f"zero, {mib(seen['peak_cached'])} in memory, too")
    if slots:
        say(f"  its tables    {seen['peak_table_bytes'] / 1024:.0f} KiB, "
            f"{seen['peak_table_bytes'] / slots:.1f} bytes a slot")
    say(f"  time          {seen['seconds']:.1f} s of guest time, {seen['oom_kill']:.0f} OOM kills")
    say(f"  afterwards    {seen['left_used']:.0f} slots in use, {seen['left_clusters']:.0f} "
        f"tables, {seen['left_stored_pages']:.0f} pages in zswap")
    say(f"\nAll {pages} pages were read back and are what was written.")
