# SPDX-License-Identifier: GPL-2.0
"""A grouped horizontal bar chart as SVG, with nothing but the standard library."""

import html
import math

ROW, GAP, LEFT, RIGHT, BARS = 15, 9, 230, 120, 520
BETTER, WORSE, EQUAL, PLAIN = "#2f7d4f", "#c2571a", "#8a8f98", "#3a6ea5"
STYLE = ("text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}"
         ".group{font-weight:bold}.axis{fill:#666;font-size:11px}")


def _text(x, y, text, css="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">' \
        f"{html.escape(text)}</text>"


def _linear(limit):
    """(position of a value, ticks): steps of 1, 2 or 5 times a power of ten."""
    limit = limit * 1.03 or 1
    step = 1e-3
    while limit / step > 8:
        step *= 2.5 if str(step * 1e9)[0] == "2" else 2
    return (lambda value: value / limit * BARS), [step * i for i in range(int(limit / step) + 1)]


def _logarithmic(least, limit):
    """The same for values that are orders of magnitude apart."""
    low, high = math.floor(math.log10(least)), math.log10(limit * 1.2)

    def position(value):
        return (math.log10(max(value, 10 ** low)) - low) / (high - low) * BARS
    return position, [10.0 ** power for power in range(low, math.floor(high) + 1)]


def _colour(ratio, equal):
    if ratio is None:
        return PLAIN
    if equal:
        return EQUAL
    return BETTER if ratio < 1 else WORSE


def bars(title, subtitle, groups, unit, mark=None):
    """groups: [(name, [(label, value, shown, equal)])]. With `mark` values are
    ratios: a line there, colours by side, a linear scale. Without it they are
    figures of all sizes: a logarithmic scale."""
    values = [bar[1] for _, items in groups for bar in items]
    position, ticks = _linear(max([*values, mark])) if mark else \
        _logarithmic(min(values), max(values))
    top = y = 66
    out = []
    for name, items in groups:
        y += GAP
        out.append(_text(8, y + 11, name, "group"))
        y += ROW
        for label, value, shown, equal in items:
            width = max(position(value), 0.5)
            out.append(_text(LEFT - 6, y + 11, label, "", "end"))
            out.append(f'<rect x="{LEFT}" y="{y + 2}" width="{width:.1f}" height="{ROW - 4}" '
                       f'fill="{_colour(value if mark else None, equal)}"/>')
            out.append(_text(LEFT + width + 4, y + 11, shown, "axis"))
            y += ROW
    lines = [_line(LEFT + position(tick), top, y, 0.25) for tick in ticks]
    lines += [_text(LEFT + position(tick), height, f"{tick:g}", "axis", "middle")
              for tick in ticks for height in (top - 4, y + 14)]
    if mark:
        lines.append(_line(LEFT + position(mark), top, y, 1))
    width, height = LEFT + BARS + RIGHT, y + 40
    head = [_text(8, 22, title, "title"), _text(8, 42, subtitle, "axis")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}"><style>{STYLE}</style>\n'
            '<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join([*head, *lines, *out, _text(LEFT, y + 30, unit, "axis")])
            + "\n</svg>\n")


def _line(x, top, bottom, opacity):
    return (f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#666" '
            f'stroke-opacity="{opacity}"/>')
