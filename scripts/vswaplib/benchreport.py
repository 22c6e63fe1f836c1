# SPDX-License-Identifier: GPL-2.0
"""From samples to what people read: tables, JSON and the plot."""

import json
import math
import statistics

from . import benchplot, benchsuites, common

# What wall-clock rows print of the kernel's counters, zero or not.
COUNTERS = ("pswpin", "pswpout", "zswpin", "zswpout", "zswpwb", "swpin_zero", "swpout_zero",
            "swap_ra", "swap_ra_hit", "workingset_refault_anon", "workingset_refault_file",
            "oom_kill")


class Samples:
    """All samples of a suite: clock -> (tag, row) -> variant -> [row fields]."""

    def __init__(self):
        self.rows = {}
        self.rest = []
        self.locks = {}
        self.info = {}

    def add(self, group, variant, info, rows, locks):
        self.info.setdefault(group.name, {})[variant] = info
        for row in rows:
            word = row["row"]
            if word is None or group.clock == benchsuites.WALL and word in benchsuites.NOT_NATIVE:
                self.rest.append({"variant": variant, "clock": group.clock, **row})
                continue
            cell = self.rows.setdefault(group.clock, {}).setdefault((row["tag"], word), {})
            cell.setdefault(variant, []).append(row)
        if locks:
            self.locks.setdefault(variant, []).extend(locks)

    def of(self, clock):
        return self.rows.get(clock, {})


def figures(samples):
    """n, mean, median, least, standard deviation of ns per page; relative spread."""
    values = [sample["ns_per_page"] for sample in samples]
    median = statistics.median(values)
    return {"n": len(values), "mean": statistics.fmean(values), "median": median,
            "min": min(values),
            "sd": statistics.stdev(values) if len(values) > 1 else 0.0,
            "spread": (max(values) - min(values)) / median if median else 0.0}


def verdict(base, other):
    """Ratio of medians; None when the means differ by less than twice the
    standard error of their difference, or nothing can be said (n below 2)."""
    if base["n"] < 2 or other["n"] < 2:
        return None
    error = math.sqrt(base["sd"] ** 2 / base["n"] + other["sd"] ** 2 / other["n"])
    if abs(other["mean"] - base["mean"]) < 2 * error:
        return None
    return other["median"] / base["median"]


def short(value):
    """Four digits or more, and no noise after them."""
    return f"{value:.1f}" if value >= 1000 else f"{value:.2f}" if value >= 100 else f"{value:.3f}"


def _table(header, rows):
    widths = [max(len(str(line[i])) for line in [header, *rows]) for i in range(len(header))]
    out = []
    for line in [header, *rows]:
        cells = [str(line[0]).ljust(widths[0])]
        cells += [str(cell).rjust(width) for cell, width in zip(line[1:], widths[1:])]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def icount_table(samples, variants):
    """Medians of instructions per page. Cells that ran more than once show their
    spread, and a ratio only where it is more than that."""
    cells = samples.of(benchsuites.ICOUNT)
    if not cells:
        return ""
    repeated = any(len(found) > 1 for cell in cells.values() for found in cell.values())
    header = ["instructions per page", *variants, *(f"{v}/{variants[0]}" for v in variants[1:])]
    header += ["largest spread"] if repeated else []
    rows = []
    for (tag, word), cell in cells.items():
        got = [figures(cell[v]) if v in cell else None for v in variants]
        line = [f"{tag}  {word}", *(short(f["median"]) if f else "-" for f in got)]
        line += [_ratio_text(got[0], other) for other in got[1:]]
        if repeated:
            spread = max(f["spread"] for f in got if f)
            line.append(f"{spread:.1%}" if any(f and f["n"] > 1 for f in got) else "")
        rows.append(line)
    return _table(header, rows)


def _ratio_text(base, other):
    if not base or not other or not base["median"]:
        return "-"
    if min(base["n"], other["n"]) > 1 and verdict(base, other) is None:
        return "no difference"
    return f"{other['median'] / base['median']:.4f}"


def wall_table(samples, variants):
    header = ["ns per page", "variant", "n", "mean", "sd", "median", "min", "real ms", "user ms",
              "sys ms", f"against {variants[0]}"]
    rows, counters = [], []
    for (tag, word), cell in samples.of(benchsuites.WALL).items():
        base = figures(cell[variants[0]]) if variants[0] in cell else None
        for variant in variants:
            if variant not in cell:
                continue
            got = figures(cell[variant])
            mean = {key: statistics.fmean(s.get(key, 0) for s in cell[variant])
                    for key in ("ns", "user_us", "sys_us", *COUNTERS)}
            against = ""
            if base and variant != variants[0]:
                ratio = verdict(base, got)
                against = "no difference" if ratio is None else f"{ratio:.3f}"
            rows.append([f"{tag}  {word}", variant, got["n"], short(got["mean"]),
                         short(got["sd"]), short(got["median"]),
                         short(got["min"]), f"{mean['ns'] / 1e6:.2f}",
                         f"{mean['user_us'] / 1e3:.2f}", f"{mean['sys_us'] / 1e3:.2f}", against])
            counters.append([f"{tag}  {word}", variant]
                            + [f"{mean[key]:.0f}" for key in COUNTERS])
    if not rows:
        return ""
    return _table(header, rows) + "\n\n" + _table(["mean change of", "variant", *COUNTERS],
                                                  counters)


# Locks that are listed with 0 contentions too, since 0 is what is hoped for.
SWAP_LOCKS = ("swap", "cluster", "si->lock", "zs", "pool")


def lock_table(samples, most=12):
    """Counts of waiting: the contended locks, then those of swap that were not.
    Times are in the JSON only: on an emulated CPU they say little."""
    out = []
    for variant, locks in samples.locks.items():
        contended = [lock for lock in locks if lock["contentions"]]
        calm = [lock for lock in locks if not lock["contentions"]
                and any(word in str(lock["class"]) for word in SWAP_LOCKS)]
        contended.sort(key=lambda lock: -lock["contentions"])
        calm.sort(key=lambda lock: -lock["acquisitions"])
        rows = [[lock["class"], lock["contentions"], lock["acquisitions"], lock["tag"]]
                for lock in contended[:most] + calm[:most]]
        if rows:
            out.append(_table([f"lock ({variant}, 2 CPUs)", "contentions", "acquisitions",
                               "workload"], rows))
    return "\n\n".join(out)


def _svg(samples, variants, clock, title):
    """Ratios to the first variant; with a single variant, its figures."""
    groups = {}
    ratios = len(variants) > 1
    for (tag, word), cell in samples.of(clock).items():
        base = figures(cell[variants[0]]) if variants[0] in cell else None
        if not base or not base["median"]:
            continue
        if not ratios:
            groups.setdefault(tag, []).append(
                (word, base["median"], short(base["median"]), False))
            continue
        for variant in variants[1:]:
            if variant not in cell:
                continue
            got = figures(cell[variant])
            several = min(base["n"], got["n"]) > 1
            equal = (several or clock == benchsuites.WALL) and verdict(base, got) is None
            ratio = got["median"] / base["median"]
            label = word if len(variants) == 2 else f"{word} ({variant})"
            shown = "no difference" if equal else f"{ratio:.3f}"
            groups.setdefault(tag, []).append((label, ratio, shown, equal))
    if not groups:
        return ""
    what = "instructions" if clock == benchsuites.ICOUNT else "nanoseconds"
    unit = f"cost per page relative to {variants[0]} (1 = equal, shorter is better)" if ratios \
        else f"{what} per page (logarithmic scale)"
    return benchplot.bars(title, " against ".join(reversed(variants)) if ratios else variants[0],
                          list(groups.items()), unit, mark=1 if ratios else None)


def plots(samples, variants, native, suite):
    """File name -> SVG."""
    found = {
        f"{suite}-icount.svg": _svg(samples, variants, benchsuites.ICOUNT,
                                    f"{suite}: deterministic clock"),
        f"{suite}-native.svg": _svg(samples, native, benchsuites.WALL,
                                    f"{suite}: native clock (User Mode Linux)"),
    }
    return {name: text for name, text in found.items() if text}


def write_json(path, samples, about):
    rows = [{"clock": clock, "tag": tag, "row": word,
             "variants": {variant: {**figures(found), "samples": found}
                          for variant, found in cell.items()}}
            for clock, cells in samples.rows.items() for (tag, word), cell in cells.items()]
    common.write_if_changed(path, json.dumps(
        {"about": about, "guests": samples.info, "rows": rows, "locks": samples.locks,
         "other_phases": samples.rest}, indent=1) + "\n")
