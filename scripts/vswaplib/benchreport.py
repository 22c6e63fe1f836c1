# SPDX-License-Identifier: GPL-2.0
"""From samples to what people read: tables, JSON and the plot."""

import json
import math
import re
import statistics

from . import benchplot, benchsuites, common

# Kernel counters of timed groups.
COUNTERS = ("pswpin", "pswpout", "zswpin", "zswpout", "zswpwb", "swpin_zero", "swpout_zero",
            "swap_ra", "swap_ra_hit", "workingset_refault_anon", "workingset_refault_file",
            "oom_kill")


class Samples:
    """All samples of a suite: clock -> (tag, row) -> variant -> [row fields]."""

    def __init__(self):
        self.rows = {}
        self.rest = []
        self.locks = {}
        self.held = {}
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
            # Hold times come from the deterministic clock, where an instruction is a
            # nanosecond, because seconds mean little on an emulated CPU.
            kept = self.held if group.icount else self.locks
            kept.setdefault(variant, []).extend(locks)

    def of(self, clock):
        return self.rows.get(clock, {})


def figures(samples):
    """Returns n, mean, median, least and standard deviation of ns per page."""
    values = [sample["ns_per_page"] for sample in samples]
    median = statistics.median(values)
    return {"n": len(values), "mean": statistics.fmean(values), "median": median,
            "min": min(values),
            "sd": statistics.stdev(values) if len(values) > 1 else 0.0}


def timed(base, other):
    """Compares timed runs. Returns the ratio of medians, its standard error, and whether there is
    no difference: if the means differ by less than twice the standard error of their difference,
    or if one of the kernels has fewer than two samples."""
    base, other = figures(base), figures(other)
    ratio = other["median"] / base["median"]
    if min(base["n"], other["n"]) < 2:
        return ratio, None, True
    errors = [one["sd"] / math.sqrt(one["n"]) for one in (base, other)]
    relative = math.hypot(errors[0] / base["mean"], errors[1] / other["mean"])
    return ratio, ratio * relative, abs(other["mean"] - base["mean"]) < 2 * math.hypot(*errors)


def paired(base, other):
    """Compares runs with the same inputs, whose differences cancel out. Returns the mean ratio, its
    standard error, and whether there is no difference. A single run has no error, so it always
    shows a difference."""
    ratios = [there["ns_per_page"] / here["ns_per_page"] for here, there in zip(base, other)
              if here["ns_per_page"]]
    ratio = statistics.fmean(ratios)
    if len(ratios) < 2:
        return ratio, None, False
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    return ratio, error, abs(ratio - 1) <= 2 * error


def compared(clock, base, other):
    """Returns (ratio, standard error or None, no difference), or None if base took nothing."""
    if not figures(base)["median"]:
        return None
    return (paired if clock == benchsuites.ICOUNT else timed)(base, other)


def short(value):
    """Returns a number as text, shortened to about four digits."""
    return f"{value:.1f}" if value >= 1000 else f"{value:.2f}" if value >= 100 else f"{value:.3f}"


def _compared_table(title, cells, variants, figure, ratio):
    """Returns a table of cells, [(name, {variant: samples})]: the figure of each variant, and the
    ratio to the first one, as text."""
    first, *others = variants
    rows = [[name, *(short(figure(cell[v])) if v in cell else "-" for v in variants),
             *(ratio(cell[first], cell[v]) if {first, v} <= cell.keys() else "-" for v in others),
             _runs(cell)] for name, cell in cells]
    header = [title, *variants, *(f"{v}/{first}" for v in others), "n"]
    return common.table(header, rows) if rows else ""


def icount_table(samples, variants):
    """Returns a table of median instructions per page, and paired ratios with their standard
    error."""
    return _compared_table(
        "instructions per page",
        [(f"{tag}  {word}", cell) for (tag, word), cell in samples.of(benchsuites.ICOUNT).items()],
        variants, lambda found: figures(found)["median"],
        lambda base, other: _ratio_text(compared(benchsuites.ICOUNT, base, other)))


def _runs(cell):
    """Returns how many runs the variants of a cell had: one number, or the least and the most."""
    counts = sorted({len(found) for found in cell.values()})
    return "-".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]]))


def _ratio_text(found):
    if not found:
        return "-"
    ratio, error, same = found
    text = f"{ratio:.4f}" if error is None else f"{ratio:.4f} ±{error:.4f}"
    return f"no difference ({text})" if same else text


def wall_table(samples, clock, variants):
    """Returns a table of spread, times and a verdict for every row."""
    if not variants:
        return ""
    header = ["ns per page", "variant", "n", "mean", "sd", "median", "min", "real ms", "user ms",
              "sys ms", f"against {variants[0]}"]
    rows = []
    for (tag, word), cell in samples.of(clock).items():
        for variant in (v for v in variants if v in cell):
            got, against = figures(cell[variant]), ""
            if variant != variants[0] and variants[0] in cell:
                ratio, _, same = timed(cell[variants[0]], cell[variant])
                against = "no difference" if same else f"{ratio:.3f}"
            times = [statistics.fmean(sample.get(key, 0) for sample in cell[variant]) / unit
                     for key, unit in (("ns", 1e6), ("user_us", 1e3), ("sys_us", 1e3))]
            rows.append([f"{tag}  {word}", variant, got["n"],
                         *(short(got[key]) for key in ("mean", "sd", "median", "min")),
                         *(f"{time:.2f}" for time in times), against])
    return common.table(header, rows) if rows else ""


def _memory(samples):
    """Returns results of swapload's meta: {(tag, phase): {variant: [KiB before the first page is
    swapped out, or bytes for each page after that]}}."""
    cells, before = {}, {}
    for row in samples.rest:
        if "kernel_bytes" not in row:
            continue
        tag, variant, count = row["tag"], row["variant"], row["kernel_bytes"]
        if row["phase"] == "meta-0":
            before[tag, variant] = count
            figure = count / 1024
        else:
            figure = (count - before.get((tag, variant), 0)) / row["pages"]
        cells.setdefault((tag, row["phase"]), {}).setdefault(variant, []).append(figure)
    return cells


def memory_table(samples, variants):
    """Returns a table of the kernel's memory for each swapped out page."""
    def ratio(base, other):
        base = statistics.fmean(base)
        return f"{statistics.fmean(other) / base:.3f}" if base else "-"

    cells = [(f"{tag}  {phase.removeprefix('meta-')} %" + ", KiB" * (phase == "meta-0"), cell)
             for (tag, phase), cell in _memory(samples).items()]
    return _compared_table("bytes per swapped page", cells, variants, statistics.fmean, ratio)


def counter_table(samples, clock, counters):
    """Returns a table of elapsed time and the counters that changed: mean and standard deviation,
    for rows where one changed."""
    cells = [(f"{tag}  {word}", variant, found)
             for (tag, word), cell in samples.of(clock).items() for variant, found in cell.items()]
    moved = [name for name in counters
             if any(sample.get(name) for _, _, found in cells for sample in found)]
    rows = []
    for name, variant, found in cells:
        columns = [[sample.get(counter, 0) for sample in found] for counter in moved]
        if any(map(any, columns)):
            seconds = [sample["ns"] / 1e9 for sample in found]
            rows.append([name, variant, len(found), *map(_spread, [seconds, *columns])])
    return common.table(["mean ± sd", "variant", "n", "seconds",
                         *(name.removeprefix("s:") for name in moved)], rows) if rows else ""


def _spread(values):
    mean = statistics.fmean(values)
    text = f"{mean:.2f}" if mean < 100 and not float(mean).is_integer() else f"{mean:.0f}"
    return text + (f" ±{statistics.stdev(values):.2g}" if len(set(values)) > 1 else "")


# Locks that are also listed with 0 contentions, because 0 is the desired result.
SWAP_LOCKS = ("swap", "cluster", "ci->lock", "si->lock", "zs", "pool")

def lock_table(samples, most=12):
    """Returns a table of contentions: the contended locks, then locks of swap without contention
    and how long they were held at most."""
    out = []
    for variant, locks in samples.locks.items():
        contended = [lock for lock in locks if lock["contentions"]]
        calm = [lock for lock in locks if not lock["contentions"] and _of_swap(lock)]
        contended.sort(key=lambda lock: -lock["contentions"])
        calm.sort(key=lambda lock: -lock["acquisitions"])
        rows = [[lock["class"], lock["contentions"], lock["acquisitions"], lock["tag"]]
                for lock in contended[:most] + calm[:most]]
        out.append(common.table([f"lock ({variant}, 2 CPUs)", "contentions", "acquisitions",
                           "workload"], rows))
    for variant, locks in samples.held.items():
        held = sorted(filter(_of_swap, locks), key=lambda lock: (lock["tag"], -lock["hold_max_us"]))
        out.append(common.table([f"lock ({variant}, 1 CPU)", "longest hold, instructions",
                           "acquisitions", "workload"],
                          [[lock["class"], f"{lock['hold_max_us'] * 1000:.0f}",
                            lock["acquisitions"], lock["tag"]] for lock in held]))
    return "\n\n".join(out)


def _of_swap(lock):
    return any(word in str(lock["class"]) for word in SWAP_LOCKS)


# {last word of a row: question that it answers}
QUESTIONS = {"swap-out": "What does swapping out cost?", "refault": "What does bringing back cost?",
             "free": "What does freeing swapped-out memory cost?",
             "fill": "What does filling more memory than there is cost?",
             "fork": "What does fork cost?", "exit of the child": "What does exit cost after fork?",
             "swapoff": "What does swapoff cost?", "writeback": "What does writeback cost?",
             "memory": "How much memory does a swapped-out page take?"}


def _questions(samples, variants, clock):
    """Returns bars by question: {question: [(label, ratio, error, no difference)]}."""
    groups, several = {}, len(variants) > 2
    for (tag, word), cell in samples.of(clock).items():
        for variant in (v for v in variants[1:] if v in cell and variants[0] in cell):
            found = compared(clock, cell[variants[0]], cell[variant])
            if found:
                groups.setdefault(QUESTIONS.get(word, word), []).append(
                    (f"{tag} ({variant})" if several else tag, *found))
    for (tag, phase), cell in _memory(samples).items() if clock == benchsuites.ICOUNT else ():
        base = statistics.fmean(cell.get(variants[0], [0]))
        for variant in (v for v in variants[1:] if v in cell and base):
            label = f"{tag} {phase.removeprefix('meta-')} %"
            groups.setdefault(QUESTIONS["memory"], []).append(
                (f"{label} ({variant})" if several else label,
                 statistics.fmean(cell[variant]) / base, None, False))
    return groups


def plots(samples, variants, native, suite):
    """Returns {file name: SVG} of the ratios to the first variant."""
    found = {}
    for clock, names, title in (
            (benchsuites.ICOUNT, variants, "instructions (deterministic clock)"),
            (benchsuites.WALL, native, "nanoseconds (User Mode Linux)"),
            (benchsuites.TIME, variants, "seconds (QEMU)")):
        groups = _questions(samples, names, clock)
        if groups:
            found[f"{suite}-{clock}.svg"] = benchplot.bars(
                f"{suite}: {title}", f"{', '.join(names[1:])} relative to {names[0]}; "
                "mark: two standard errors; =: no difference", list(groups.items()))
    return found


def write_json(path, samples, about):
    rows = [{"clock": clock, "tag": tag, "row": word,
             "variants": {variant: {**figures(found), "samples": found}
                          for variant, found in cell.items()}}
            for clock, cells in samples.rows.items() for (tag, word), cell in cells.items()]
    common.write_if_changed(path, json.dumps(
        {"about": about, "guests": samples.info, "rows": rows, "locks": samples.locks,
         "holds": samples.held, "other_phases": samples.rest}, indent=1) + "\n")


# --- figures that are written down ---------------------------------------------

# A comment above each table of figures in the documentation says on which tree the figures were
# measured (series.fingerprint()), and in how many runs. It also says whether one run is exact. It
# has a hash of the words of the table, so that no row can be changed by itself.
MEASURED = re.compile(r"^\.\. measured: tree=([0-9a-f]{16}|unknown) n=(\d+) "
                      r"(exact|timed|counted) table=([0-9a-f]{8})$")
# The tables whose tree was not noted: {document: their hashes}. None may come in addition, and one
# that is measured anew leaves.
UNKNOWN = {
    "Documentation/rust/vswap/figures.rst": {"ccb00ac7", "21801dd3"},
    "Documentation/rust/vswap/figures-devices.rst": {
        "43a8c99e", "6f541b3e", "03e66c20", "b3846d9b", "8b2b48e3", "1b95980f"},
}
BORDER = re.compile(r"^=+( +=+)+$")


def digest(table):
    """Returns a hash of the words of a table, which does not depend on blanks."""
    return common.digest(" ".join(table.split()))[:8]


def measured(tree, runs, how, table):
    """Returns the comment that belongs above a table."""
    return f".. measured: tree={tree} n={runs} {how} table={digest(table)}"


def _figures(lines):
    """Returns true for a table with figures: two lines or more have at least two numbers each. A
    literal block with commands has fewer."""
    return sum(len(re.findall(r"(?<![\w/.-])\d[\d.]*(?![\w/])", line)) >= 2 for line in lines) >= 2


def tables(text):
    """Returns [(first line, last line, text)] of the tables of an rst file: those with borders,
    and literal blocks with figures. Lines count from 0."""
    lines, found, at = text.splitlines(), [], 0
    while at < len(lines):
        start = at
        if BORDER.match(lines[at]):
            while at < len(lines) and lines[at].strip():
                at += 1
        elif lines[at].startswith(" ") and (not at or not lines[at - 1].strip()):
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" ")):
                at += 1
        else:
            at += 1
            continue
        if _figures(lines[start:at]):
            found.append((start, at, "\n".join(lines[start:at]).rstrip()))
    return found


def table_problems(name, text):
    """Yields problems: tables without the comment, with two comments, of an unknown tree, of too
    few runs, or changed since the comment was written."""
    after, lines = 0, text.splitlines()
    for start, end, table in tables(text):
        before = lines[after:start]
        after = end
        said = [found for found in map(MEASURED.match, before) if found]
        wanted = f"{name}:{start + 1}: "
        if len(said) != 1:
            yield (f"{wanted}{len(said)} comments say what this table's figures are of: write "
                   "one, '.. measured: ...', as bench prints it")
        elif said[0][4] != digest(table):
            yield (f"{wanted}this table was changed: if all its figures are of one run on tree "
                   f"{said[0][1]}, write table={digest(table)} above it")
        elif said[0][1] == "unknown" and said[0][4] not in UNKNOWN.get(name, ()):
            yield f"{wanted}no tree is known: measure this table, or delete it"
        elif said[0][3] == "exact" and int(said[0][2]) < 3 and "usemem" in table:
            yield (f"{wanted}usemem depends on where reclaim goes: measure it 3 times, in a table "
                   "of its own")
        if re.search(r"\b(an earlier|another|an older)\s+tree\b", "\n".join(before[-8:])):
            yield f"{wanted}rows of another tree: take them out, or measure all anew"
