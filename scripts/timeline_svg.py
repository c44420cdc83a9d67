"""A timeline as SVG: rows of bars and marks over one axis of seconds; pure.

The same rows give the same bytes. The text is text, and the colours follow the reader's theme.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from timeline_story import ENDING, GENERATION, Mark, Row, Span

WIDTH = 900.0
LEFT, RIGHT = 100.0, 130.0
TOP = 16.0
BAR = 22.0
LANE = 16.0
GAP = 14.0
LETTER, WIDE_LETTER = 5.6, 11.5
"""Widths at 11 px; a little more than most fonts need."""
MOST_TICKS = 12
STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
WAITS = "waits"
CLASSES = {GENERATION: "runs", ENDING: "ends"}
"""Of a phase; all others are waits."""

Words = Mapping[str, str]

STYLE = """
svg { font: 11px system-ui, "Noto Sans", "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; }
.page { fill: #ffffff; }
text { fill: #1f2328; }
.name { font-weight: 600; font-size: 12px; }
.axis { fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.line { stroke: #59636e; stroke-width: 1; }
.runs { fill: #9be0ac; }
.ends { fill: #ffc680; }
.waits { fill: #d5dbe1; }
.in { fill: #1f2328; }
.said { stroke: #ffffff; stroke-width: 4; paint-order: stroke; }
.mark { stroke: #cf222e; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; }
text { fill: #f0f6fc; }
.axis { fill: #9198a1; }
.grid { stroke: #2a313a; }
.line { stroke: #9198a1; }
.runs { fill: #1f7a37; }
.ends { fill: #9a5b00; }
.waits { fill: #3d444d; }
.in { fill: #ffffff; }
.said { stroke: #0d1117; }
.mark { stroke: #ff7b72; }
}
"""


@dataclass(frozen=True)
class Axis:
    """Seconds of the wall clock to pixels."""

    begin: float
    end: float

    def x(self, at: float) -> float:
        return LEFT + (at - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self) -> Iterator[int]:
        """Whole seconds after the beginning."""
        length = self.end - self.begin
        step = next((step for step in STEPS if length / step <= MOST_TICKS), STEPS[-1])
        return iter(range(0, int(length) + 1, step))


@dataclass(frozen=True)
class Label:
    """A text below a bar, in one of the lanes."""

    mark: Mark
    text: str
    lane: int


def picture(rows: Sequence[Row], words: Words) -> str:
    """The SVG document; ``words`` are those of one language."""
    axis = axis_of(rows)
    labels = [tuple(placed(row.marks, axis, words)) for row in rows]
    heights = [BAR + lanes(row) * LANE + GAP for row in labels]
    height = TOP + sum(heights) + 44
    parts = [*head(height, words), *grid(axis, TOP, TOP + sum(heights))]
    y = TOP
    for row, placing, its_height in zip(rows, labels, heights, strict=True):
        parts += drawn(row, placing, axis, y, words)
        y += its_height
    parts += [*legend(y + 34, words), "</svg>"]
    return "\n".join(parts) + "\n"


def axis_of(rows: Sequence[Row]) -> Axis:
    """From the first moment that is shown to the last."""
    moments = [span.begin for row in rows for span in row.spans]
    moments += [span.end for row in rows for span in row.spans]
    moments += [mark.at for row in rows for mark in row.marks]
    return Axis(min(moments), max(*moments, min(moments) + 1))


def head(height: float, words: Words) -> Iterator[str]:
    size = f'width="{WIDTH:.0f}" height="{height:.0f}" viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>'
    yield f"<title>{escape(words['title'])}</title>"
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="page" width="{WIDTH:.0f}" height="{height:.0f}"/>'


def grid(axis: Axis, top: float, bottom: float) -> Iterator[str]:
    for second in axis.ticks:
        x = axis.x(axis.begin + second)
        yield f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
        yield (
            f'<text class="axis" x="{x:.1f}" y="{bottom + 13:.1f}" text-anchor="middle">'
            f"{second} s</text>"
        )


def drawn(row: Row, labels: Sequence[Label], axis: Axis, y: float, words: Words) -> Iterator[str]:
    """One row: its name, its bars, and its marks with their texts."""
    name = words.get(f"host.{row.name}", row.name)
    yield f'<text class="name" x="10" y="{y + 15:.1f}">{escape(name)}</text>'
    if not row.spans:
        yield f'<path class="line" d="M{LEFT:.1f} {y + 11:.1f}H{WIDTH - RIGHT:.1f}"/>'
    for span in row.spans:
        yield from bar(span, axis, y, words)
    for label in labels:
        yield from marked(label, axis, y)


def bar(span: Span, axis: Axis, y: float, words: Words) -> Iterator[str]:
    """A phase; its text stands in it if there is room."""
    left, right = axis.x(span.begin), axis.x(span.end)
    kind = CLASSES.get(span.phase, WAITS)
    text = words[span.phase].format(span.generation)
    yield (
        f'<rect class="{kind}" x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1):.1f}" '
        f'height="{BAR:.0f}"><title>{escape(text)}</title></rect>'
    )
    if width(text) + 8 <= right - left:
        yield f'<text class="in" x="{left + 4:.1f}" y="{y + 15:.1f}">{escape(text)}</text>'


def marked(label: Label, axis: Axis, y: float) -> Iterator[str]:
    """A mark's line, from above the bar down to its text."""
    x, base = axis.x(label.mark.at), y + BAR + label.lane * LANE + 13
    yield f'<path class="mark" d="M{x:.1f} {y - 2:.1f}V{base:.1f}"/>'
    yield f'<text class="said" x="{x + 4:.1f}" y="{base:.1f}">{escape(label.text)}</text>'


def placed(marks: Sequence[Mark], axis: Axis, words: Words) -> Iterator[Label]:
    """Each mark's text in the first lane where it covers no other text and no other mark's line.

    From right to left: a text stands right of its line, so the lines of later marks end above it.
    """
    free: list[float] = []  # for each lane, where what stands there or crosses it begins
    for mark in sorted(marks, key=lambda mark: -mark.at):
        text = words[mark.word].format(mark.value)
        begin = axis.x(mark.at)
        end = begin + width(text) + 10
        lane = next((i for i, taken in enumerate(free) if end <= taken), len(free))
        free[: lane + 1] = [begin] * (lane + 1)
        yield Label(mark, text, lane)


def lanes(labels: Sequence[Label]) -> int:
    return max((label.lane + 1 for label in labels), default=0)


def legend(y: float, words: Words) -> Iterator[str]:
    x = LEFT
    for kind in (*CLASSES.values(), WAITS):
        text = words[f"legend.{kind}"]
        yield f'<rect class="{kind}" x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12"/>'
        yield f'<text x="{x + 17:.1f}" y="{y:.1f}">{escape(text)}</text>'
        x += width(text) + 40


def width(text: str) -> float:
    """About so many pixels."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return wide * WIDE_LETTER + (len(text) - wide) * LETTER
