"""What a terminal shows, as SVG; pure.

The text is text, each run of one style as wide as its columns, whatever font the reader has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

WIDE, HIGH = 7.8, 17.0
"""A character's, in pixels."""
MARGIN = 12.0
BASELINE = 12.5
COLOURS = {
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#56d364",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "white": "#f0f6fc",
}
"""By the terminal's names; a bright one is as its plain one."""
TEXT, GROUND = "#d1d9e0", "#0d1117"
STYLE = f"""
text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: {TEXT}; }}
.bold {{ font-weight: 700; }}
.ground {{ fill: {GROUND}; }}
"""


@dataclass(frozen=True)
class Cell:
    """One column; ``colour`` is the terminal's name of it, six hexadecimal digits, or default."""

    character: str
    colour: str = "default"
    bold: bool = False

    @property
    def style(self) -> tuple[str, bool]:
        return self.colour, self.bold


Row = Sequence[Cell]


def picture(rows: Sequence[Row], columns: int, title: str) -> str:
    """An SVG document; ``title`` is what it shows, for who cannot see it."""
    width, height = 2 * MARGIN + columns * WIDE, 2 * MARGIN + len(rows) * HIGH
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        '<rect class="ground" width="100%" height="100%" rx="6"/>',
        *(text for number, row in enumerate(rows) for text in _texts(row, number)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _texts(row: Row, number: int) -> Iterator[str]:
    """One for each run of a style; blanks between need none."""
    y = MARGIN + number * HIGH + BASELINE
    begin = 0
    for (colour, bold), cells in groupby(row, key=lambda cell: cell.style):
        run = "".join(cell.character for cell in cells)
        words = run.strip(" ")
        if words:
            x = MARGIN + (begin + len(run) - len(run.lstrip(" "))) * WIDE
            yield (
                f'<text xml:space="preserve" x="{x:.1f}" y="{y:.1f}" '
                f'textLength="{len(words) * WIDE:.1f}"{_look(colour, bold=bold)}>'
                f"{escape(words, quote=False)}</text>"
            )
        begin += len(run)


def _look(colour: str, *, bold: bool) -> str:
    name = colour.removeprefix("bright")
    fill = COLOURS.get(name) or (None if name == "default" else f"#{name}")
    shown = f' style="fill: {fill}"' if fill else ""
    return shown + (' class="bold"' if bold else "")
