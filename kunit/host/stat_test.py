# SPDX-License-Identifier: GPL-2.0
"""Tests that tools/mm/vswap-stat reports what is in a copy of /proc and /sys."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/mm/vswap-stat"


def load():
    loader = importlib.machinery.SourceFileLoader("vswap_stat", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vswap_stat", loader))
    loader.exec_module(module)
    return module


stat = load()
PAGE = stat.PAGE

FILES = {
    "sys/kernel/mm/vswap/enabled": "on\n",
    "sys/kernel/mm/vswap/max_slots": "1024\n",
    "sys/kernel/mm/vswap/stats/used": "100\n",
    "sys/kernel/mm/vswap/stats/cached": "7\n",
    "sys/kernel/mm/vswap/stats/zero": "20\n",
    "sys/kernel/mm/vswap/stats/zswap": "50\n",
    "sys/kernel/mm/vswap/stats/device": "30\n",
    "sys/kernel/mm/vswap/stats/clusters": "2\n",
    "sys/kernel/mm/vswap/stats/bound": "0\n",
    "sys/kernel/mm/vswap/stats/headers": "3\n",
    "sys/kernel/mm/vswap/stats/bytes": "9000\n",
    "proc/meminfo": f"MemTotal: 1000 kB\nZswap: 64 kB\nZswapped: {60 * PAGE // 1024} kB\n",
    "proc/swaps": "Filename Type Size Used Priority\n"
                  f"/dev/vda partition 10240 {40 * PAGE // 1024} -1\n",
    "proc/vmstat": "pswpin 10\nzswpout 500\nother 3\n",
    "sys/fs/cgroup/cgroup.procs": "",
    "sys/fs/cgroup/memory.stat": f"vswap {90 * PAGE}\nzswap 1000\nzswapped {60 * PAGE}\n",
    "sys/fs/cgroup/a/cgroup.procs": "",
    "sys/fs/cgroup/a/memory.stat": f"vswap {10 * PAGE}\nzswap 200\nzswapped {5 * PAGE}\n",
    "sys/fs/cgroup/a/memory.swap.current": f"{4 * PAGE}\n",
    "sys/fs/cgroup/a/b/memory.stat": "vswap 0\nzswap 0\nzswapped 0\n",
    "sys/fs/cgroup/a/b/memory.swap.current": "0\n",
    "sys/fs/cgroup/c/cgroup.procs": "",
    "sys/fs/cgroup/c/memory.stat": f"vswap 0\nzswap 0\nzswapped {PAGE}\n",
    "sys/fs/cgroup/c/memory.swap.current": f"{80 * PAGE}\n",
}


class Stat(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        (self.top / name).parent.mkdir(parents=True, exist_ok=True)
        (self.top / name).write_text(text)

    def run_tool(self, *words, code=0):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            self.assertEqual(stat.main([*words, "--root", str(self.top)]), code)
        self.assertEqual(bool(errors.getvalue()), bool(code))
        return errors.getvalue() if code else out.getvalue()

    def test_where_pages_are(self):
        lines = self.run_tool().splitlines()
        self.assertEqual([line.split()[:2] for line in lines[:4]],
                         [["swapped", "out"], ["zeros", "20"], ["zswap", "60"],
                          ["/dev/vda", "40"]])
        self.assertIn("virtual slots (on): 100 of 1024 in use; zeros 20, zswap 50, device 30; "
                      "7 of them are in the swap cache, too", lines)
        self.assertEqual(lines[-1], "tables: 8.8 KiB in 2 clusters, 90.0 B a page")

    def test_nothing_is_swapped_out(self):
        self.write("sys/kernel/mm/vswap/stats/used", "0\n")
        self.assertIn("tables: 8.8 KiB in 2 clusters\n", self.run_tool())

    def test_numbers_for_programs(self):
        found = json.loads(self.run_tool("-j"))
        self.assertEqual(found["slots"], {
            "used": 100, "cached": 7, "zero": 20, "zswap": 50, "device": 30, "clusters": 2,
            "bound": 0, "headers": 3, "bytes": 9000})
        self.assertEqual(found["zswap"], {"pages": 60, "bytes": 65536})
        self.assertEqual(found["devices"], [{"name": "/dev/vda", "bytes": 10240 * 1024,
                                             "used": 40 * PAGE, "priority": -1}])
        self.assertNotIn("cgroups", found)

    def names(self, *words):
        return [one["name"] for one in json.loads(self.run_tool("-j", *words))["cgroups"]]

    def test_cgroups(self):
        # Sorted by size. Cgroups without swapped out pages are left out.
        self.assertEqual(self.names("-c"), ["/", "/c", "/a"])
        self.assertEqual(self.names("--cgroups", "/a"), ["/a"])
        lines = self.run_tool("-c").splitlines()
        self.assertEqual(lines[-1].split(), ["/a", *stat.size(10 * PAGE).split(),
                                             *stat.size(5 * PAGE).split(), "200", "B",
                                             *stat.size(4 * PAGE).split()])
        self.assertIn("is no cgroup", self.run_tool("-c", "nowhere", code=1))

    def test_no_cgroup_has_anything(self):
        for name in FILES:
            if name.endswith(("memory.stat", "memory.swap.current")):
                (self.top / name).unlink()
        self.assertIn("no cgroup has anything swapped out", self.run_tool("-c"))

    def test_rates(self):
        moments = iter([10.0, 12.0, 16.0])
        texts = iter(["pswpin 50\nzswpout 500\n", "pswpin 50\nzswpout 900\n"])
        with mock.patch.object(stat.time, "monotonic", lambda: next(moments)), \
                mock.patch.object(stat.time, "sleep",
                                  lambda _: self.write("proc/vmstat", next(texts))):
            lines = [json.loads(line) for line in self.run_tool("-j", "1", "2").splitlines()]
        self.assertEqual([line["rates"]["pswpin"] for line in lines], [20, 0])
        self.assertEqual([line["rates"]["zswpout"] for line in lines], [0, 100])

    def test_lines_of_rates_have_their_heads(self):
        with mock.patch.object(stat.time, "sleep"):
            heads, *lines = self.run_tool("0.1", "2").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertEqual(len(heads.split()), len(stat.PLACES) + 1 + len(stat.EVENTS))
        # A size is two words.
        self.assertEqual(lines[0].split()[:6], ["20", "50", "30", "7", "8.8", "KiB"])

    def test_another_kernel(self):
        (self.top / "sys/kernel/mm/vswap/enabled").unlink()
        self.assertIn("CONFIG_RUST_VSWAP", self.run_tool(code=1))

    def test_another_user(self):
        real = pathlib.Path.read_text

        def denied(path, *args):
            if path.parent.name == "stats":
                raise PermissionError(13, "Permission denied")
            return real(path, *args)
        with mock.patch.object(pathlib.Path, "read_text", denied):
            self.assertIn("sudo", self.run_tool(code=1))

    def test_bad_words(self):
        for words in (["0"], ["-1"], ["1", "0"], ["x"], ["1", "-c"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                stat.main(words)

    def test_sizes(self):
        self.assertEqual([stat.size(count) for count in
                          (0, 1023, 1024, 1536, 1 << 20, 5 << 30, 3000 << 30)],
                         ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB",
                          "3000.0 GiB"])

    def test_a_cgroup_that_goes_meanwhile(self):
        real = os.walk

        def walk(place):
            found = list(real(place))
            shutil.rmtree(self.top / "sys/fs/cgroup/c")
            return found
        with mock.patch.object(stat.os, "walk", walk):
            self.assertEqual(self.names("-c"), ["/", "/a"])


if __name__ == "__main__":
    unittest.main()
