# SPDX-License-Identifier: GPL-2.0
"""The verb run: the product's main job, with numbers from a real guest."""

import pathlib
import re
import tempfile

from . import build, guest
from .common import run, say


def add_arguments(parser):
    parser.add_argument("--variant", default="vswap", choices=["base", "vswap", "debug"])


def main(args):
    build.ensure(args.variant)
    with tempfile.TemporaryDirectory() as work:
        disk = pathlib.Path(work) / "disk"
        with disk.open("wb") as image:
            image.truncate(1 << 30)
        run(["/sbin/mkfs.ext4", "-q", "-F", disk])
        say("==> booting a guest of 512 MB and filling 560 MB in it (about a minute)")
        result = guest.boot(args.variant, "exec sh /vswap/demo.sh", mem="512M", disks=[str(disk)],
                            timeout=900, ensure=False)
    words = dict(re.findall(r"^([a-z_]+) ([0-9.]+)$", result.output, re.M))
    verified = re.search(r"phase=end verified_pages=(\d+)", result.output)
    if result.code or not verified or "seconds" not in words:
        say(result.output)
        say(f"the data did not verify, or the guest could not run the demo; log: {result.log}")
        return 1
    account({name: float(value) for name, value in words.items()}, int(verified.group(1)))
    say(f"    kernel log: {result.log}")
    return 0


def mib(pages):
    return f"{pages / 256:.0f} MiB"


def account(seen, pages):
    """What happened, for a person to read."""
    stored, pool = seen["peak_stored_pages"], seen["peak_pool_bytes"]
    say(f"\nA working set of {mib(pages)} in a guest of {seen['memory_kb'] / 1024:.0f} MiB:\n")
    say(f"  swapped out   {mib(seen['zswpout'])} compressed by zswap, "
        f"{mib(seen.get('swpout_zero', 0))} all zero, "
        f"{mib(seen['pswpout'])} written to the swapfile ({mib(seen['zswpwb'])} of it by zswap)")
    say(f"  swapped in    {mib(seen['zswpin'])} from zswap, {mib(seen.get('swpin_zero', 0))} zero, "
        f"{mib(seen['pswpin'])} from the swapfile")
    say(f"  at its peak   {mib(stored)} lived in {pool / (1 << 20):.0f} MiB of zswap pool; "
        f"{seen['peak_slots_kb'] / 1024:.0f} MiB of the swapfile were occupied")
    say(f"  time          {seen['seconds']:.1f} s of guest time, {seen['oom_kill']:.0f} OOM kills")
    say(f"  afterwards    {seen['left_stored_pages']:.0f} pages left in zswap")
    say(f"\nAll {pages} pages were read back and are what was written.")
