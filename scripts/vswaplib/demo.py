# SPDX-License-Identifier: GPL-2.0
"""The verb run: shows swapping with virtual slots, compared with the alternatives."""

import re

from . import build, guest
from .common import Progress, say

MEMORY = "256M"
SIZE = 288          # MiB of the working set

# An arm is a kernel with what it swaps to: (variant, argument of demo.sh: what it swaps to, label).
# The first arm is the product; base is the kernel without it.
ARMS = (("vswap", "both", "vswap, zswap and a disk"),
        ("base", "disk", "base, swap disk"),
        ("base", "zram", "base, zram"),
        ("vswap", "none", "vswap, zswap alone"),
        ("base", "none", "base, zswap alone"))
COLUMNS = "     time  used MiB   zswap    zero  device  faults/s   the guest"


def main(_args):
    for variant in dict.fromkeys(variant for variant, _, _ in ARMS):
        build.ensure(variant)
    say(f"\n{SIZE} MiB of memory are filled and read again in a guest of {MEMORY}B. A third of the "
        "pages does not\ncompress, 5 % are zeros, the others compress to a quarter (lz4).")
    seen = []
    for number, (variant, device, name) in enumerate(ARMS, 1):
        say(f"\n==> {number} of {len(ARMS)}: {name} (about a minute)")
        seen.append((name, _boot(variant, device)))
    product = seen[0][1]
    if not well(product):
        say(product["output"])
        say(f"the data did not verify, or the guest could not run the demo; log: {product['log']}")
        return 1
    say("\n" + "\n".join(comparison(seen)))
    say(f"\nAll {product['verified']} pages of vswap were read back and are what was written. "
        f"{product['left_used']:.0f} slots are\nin use afterwards: they have files of the guest's "
        "root file system, which is a tmpfs.")
    say("kernel logs:\n" + "\n".join(f"    {name}: {one['log']}" for name, one in seen))
    return 0


class Live:
    """A table of a guest's reports while it runs. On a terminal the last line changes in place."""

    def __init__(self):
        self.progress = Progress()
        self.rest = ""
        self.before = (0, 0)
        self.shown = 0
        self.seen = []
        self.pause = 5 if self.progress.terminal else 10

    def follow(self, fresh):
        *lines, self.rest = (self.rest + fresh).split("\n")
        for line in lines:
            if line.startswith("sample "):
                self.add({name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", line)})

    def add(self, sample):
        seconds = self.progress.seconds()
        self.seen.append(sample)
        if seconds - self.shown >= self.pause or len(self.seen) == 1:
            self.progress.clear()
            if len(self.seen) == 1:
                say(COLUMNS)
            say("    " + self.line(sample, seconds))
            self.shown = seconds
        elif self.progress.terminal:
            self.progress.show(self.line(sample, seconds)[6:])
        self.before = (seconds, sample["faults"])

    def line(self, sample, seconds):
        rate = (sample["faults"] - self.before[1]) / max(0.1, seconds - self.before[0])
        does = f"fills memory, {sample['set']} %" if sample["set"] < 98 else \
            "reads it again and checks it"
        places = "".join(f"{sample[name] >> 8:8}" for name in ("zswap", "zero", "device"))
        return f"{int(seconds) // 60:2}:{int(seconds) % 60:02}{sample['used'] >> 8:9} {places}" \
            f"{rate:10.0f}   {does}"


def _boot(variant, device):
    """Runs an arm. Returns its figures by name, with "verified" pages if it ran to its end."""
    live = Live()
    # Without a device the working set may be OOM-killed, which the table shows. Sometimes kswapd
    # gets no page for the swap table of a device cluster, and goes on.
    result = guest.boot(variant, f"SIZE={SIZE} exec sh /vswap/demo.sh {device}", mem=MEMORY,
                        timeout=900, follow=live.follow,
                        disks=[f"{SIZE}M"] if device in ("disk", "both") else [],
                        allowed=("alloc", "oom") if variant == "base" or device == "none"
                        else ("alloc",))
    live.progress.clear()
    words = re.findall(r"^([a-z_]+) ([0-9.]+)$", result.output, re.M)
    seen = {name: float(value) for name, value in words}
    verified = re.search(r"phase=end verified_pages=(\d+)", result.output)
    if verified:
        seen["verified"] = int(verified.group(1))
    seen["held"] = max((sample["held"] for sample in live.seen), default=0)
    return {**seen, "code": result.code, "output": result.output, "log": result.log}


def well(seen):
    """Returns true if all data was read back."""
    return not seen["code"] and "verified" in seen and "seconds" in seen


def comparison(seen):
    """Returns the lines of a table: the costs of each arm."""
    lines = [f"{'':24}{'time':>9}{'major faults':>15}{'memory held':>14}{'disk written':>15}"]
    for name, one in seen:
        if well(one):
            lines.append(f"{name:24}{one['seconds']:7.1f} s{one['pgmajfault']:15.0f}"
                         f"{one['held'] / (1 << 20):10.0f} MiB"
                         f"{one.get('written_kb', 0) / 1024:11.0f} MiB")
        elif one.get("oom_kill"):
            lines.append(f"{name:24}killed for lack of memory after {one['seconds']:.0f} s")
        else:
            lines.append(f"{name:24}failed with exit code {one['code']}; log: {one['log']}")
    return [*lines, "",
            "Memory held: the most that compressed pages, and tables of virtual slots, took. Pages "
            "that do not\ncompress go to the disk or to zram; without these they stay in memory.",
            "The guest's CPU is emulated and its disk is a file in this machine's memory: a real "
            "CPU is tens\nof times faster, a real disk slower."]
