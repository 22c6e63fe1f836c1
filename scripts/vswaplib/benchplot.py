# SPDX-License-Identifier: GPL-2.0
"""Draws ratios as bars, in SVG and as an HTML page, with only the standard library.

A bar begins at 1 and its length is the ratio's logarithm, so half and double are equally long.
"""

import html
import math

ROW, GAP, LEFT, RIGHT, BARS = 16, 12, 310, 130, 420
CENTRE = LEFT + BARS / 2
BETTER, WORSE, EQUAL = "#2f7d4f", "#c0392b", "#9aa0a8"
STYLE = ("text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}"
         ".group{font-weight:bold}.axis{fill:#666;font-size:11px}")
# The shortest and the longest scale, as logarithms, and the ratios that may label it.
LEAST, MOST = math.log(1.05), math.log(4)
TICKS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 4)
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px sans-serif;margin:24px;max-width:900px;color:#222}}
svg{{display:block;margin:0 0 24px}}pre{{color:#555;white-space:pre-wrap}}</style></head>
<body><h1>{title}</h1>
{body}
<pre>{about}</pre></body></html>
"""


def _text(x, y, text, css="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">' \
        f"{html.escape(text)}</text>"


def _line(x, top, bottom, colour="#666", opacity=1.0):
    return (f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" '
            f'stroke-opacity="{opacity}"/>')


def _ticks(limit):
    """Returns the ratios to label, at least 40 pixels apart."""
    found = [1]
    for tick in TICKS:
        far = (math.log(tick) - math.log(found[-1])) / limit * BARS / 2
        if math.log(tick) <= limit and far >= 40:
            found.append(tick)
    return [*(1 / tick for tick in found[:0:-1]), *found]


def _bar(y, ratio, error, equal, limit):
    """Draws a bar, the mark of twice its error, and an arrow if it is longer than the scale."""
    def position(value):
        value = math.log(max(value, 1e-9))
        return CENTRE + max(-limit, min(limit, value)) / limit * BARS / 2

    x, colour = position(ratio), EQUAL if equal else BETTER if ratio < 1 else WORSE
    out = [f'<rect x="{min(x, CENTRE):.1f}" y="{y + 2}" width="{max(abs(x - CENTRE), 1):.1f}" '
           f'height="{ROW - 5}" fill="{colour}"/>']
    if abs(math.log(max(ratio, 1e-9))) > limit:
        out.append(_text(x + (4 if ratio > 1 else -4), y + 12, "»" if ratio > 1 else "«", "group",
                         "start" if ratio > 1 else "end"))
    if error:
        low, high = position(ratio - 2 * error), position(ratio + 2 * error)
        middle = y + ROW / 2 - 0.5
        out.append(f'<path d="M{low:.1f} {middle - 3}v6m0 -3H{high:.1f}m0 -3v6" stroke="#222" '
                   'fill="none"/>')
    return out


def bars(title, subtitle, groups):
    """Returns a plot. groups: [(name, [(label, ratio, standard error or None, no difference)])]"""
    ratios = [item[1] for _, items in groups for item in items]
    limit = min(MOST, max(LEAST, *(abs(math.log(max(ratio, 1e-9))) * 1.05 for ratio in ratios)))
    top = y = 84
    out = []
    for name, items in groups:
        y += GAP
        out.append(_text(8, y + 11, name, "group"))
        y += ROW
        for label, ratio, error, equal in items:
            out.append(_text(LEFT - 16, y + 12, label, "", "end"))
            out += _bar(y, ratio, error, equal, limit)
            shown = f"{ratio:.3f}" + (f" ±{2 * error:.3f}" if error else "")
            out.append(_text(LEFT + BARS + 18, y + 12, shown + (" =" if equal else ""), "axis"))
            y += ROW
    y += GAP
    lines = []
    for tick in _ticks(limit):
        x = CENTRE + math.log(tick) / limit * BARS / 2
        lines.append(_line(x, top, y, opacity=1 if tick == 1 else 0.2))
        lines += [_text(x, height, f"{tick:.3g}", "axis", "middle") for height in (top - 4, y + 14)]
    lines += [_text(LEFT, top - 20, "◀ costs less", "axis"),
              _text(LEFT + BARS, top - 20, "costs more ▶", "axis", "end")]
    width, height = LEFT + BARS + RIGHT, y + 26
    head = [_text(8, 22, title, "title"), _text(8, 42, subtitle, "axis")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}"><style>{STYLE}</style>\n'
            '<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join([*head, *lines, *out]) + "\n</svg>\n")


def page(title, plots, about):
    """Returns an HTML page that needs no other file."""
    return PAGE.format(title=html.escape(title), body="\n".join(plots), about=html.escape(about))
