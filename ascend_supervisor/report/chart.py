"""The charts of a report as SVG; pure.

Places are percent of the width, so that texts have their size on a phone, too. Colours come from
the page, by classes. drawsvg, which escapes texts but not attributes, gets no foreign attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import drawsvg as draw

from ascend_supervisor.phrases import about, listed, run_text, runs
from ascend_supervisor.report.drawing import SECOND, Axis, Curve, PlacedFlag, drawn, lanes
from ascend_supervisor.report.servers import DrawnBar, RankLife, ReportedServer
from ascend_supervisor.report.words import Words

TEXT = 12
NAME, BAR, LANE, FLAG, GAP = 17, 16, 6, 14, 9
CURVE = 180


def timeline(
    servers: Sequence[ReportedServer],
    axis: Axis,
    shortest: int,
    flags: Mapping[str, Sequence[PlacedFlag]],
    words: Words,
) -> draw.Drawing:
    """A row for each server, with its flags; what is shorter than ``shortest`` is put together."""
    rows = [
        _ServerRow(server, lanes(server, shortest), flags.get(server.host, ()))
        for server in servers
    ]
    tops = [0, *accumulate(row.height for row in rows)]
    picture = _picture(tops[-1] + TEXT + 6, words["timeline"])
    _grid(picture, axis, tops[-1])
    for row, top in zip(rows, tops, strict=False):
        picture.append(draw.Text(row.server.host, TEXT, 0, top + TEXT, class_="name"))
        y = top + NAME
        for bar in drawn(row.server.bars, shortest):
            _bar(picture, f"k-{bar.kind}", bar, axis, y, BAR, _of_bar(bar, axis, words))
        y += BAR
        for lives in row.lives:
            for life in lives:
                kind = "k-failed" if life.failed else "k-life"
                _bar(picture, kind, life, axis, y + 1, LANE - 2, _of_life(life, words))
            y += LANE
        for flag in row.flags:
            _flag(picture, flag, top + NAME - 3, y)
    return picture


class _ServerRow(NamedTuple):
    """What is drawn of a server, from above."""

    server: ReportedServer
    lives: Sequence[Sequence[RankLife]]
    flags: Sequence[PlacedFlag]

    @property
    def height(self) -> int:
        flags = max((flag.lane + 1 for flag in self.flags), default=0)
        return NAME + BAR + LANE * len(self.lives) + FLAG * flags + GAP


def account(seconds: Mapping[str, float], words: Words) -> draw.Drawing:
    """One bar of all that the time was spent on."""
    picture = _picture(BAR, words["account"])
    whole = sum(seconds.values()) or 1.0
    axis, at = Axis(0, round(whole * SECOND)), 0
    for kind, spent in seconds.items():
        end = at + round(spent * SECOND)
        bar = DrawnBar("waiting", at, end)
        said = f"{words[f'kind.{kind}']}: {about(spent)}"
        _bar(picture, f"k-{kind}", bar, axis, 0, BAR, said)
        at = end
    return picture


def progress(curve: Curve, axis: Axis, words: Words) -> draw.Drawing:
    """Steps over time, with checkpoints and the starts of generations."""
    picture = _picture(CURVE + TEXT + 6, words["progress"])
    _grid(picture, axis, CURVE)
    for step in (curve.most // 2, curve.most):
        y = curve.height(step, CURVE)
        picture.append(_line("0%", y, "100%", y, class_="grid"))
        said = words["steps"].format(step=f"{step:,}")
        picture.append(draw.Text(said, TEXT, 0, y + TEXT, class_="axis"))
    for at in curve.starts:
        x = f"{axis.place(at)}%"
        picture.append(_line(x, 0, x, CURVE, class_="begin"))
    for one, other in curve.lines:
        places = (f"{axis.place(one.at)}%", curve.height(one.step, CURVE))
        to = (f"{axis.place(other.at)}%", curve.height(other.step, CURVE))
        picture.append(_line(*places, *to, class_="curve"))
    for level in curve.checkpoints:
        x, y = f"{axis.place(level.at)}%", curve.height(level.step, CURVE)
        picture.append(draw.Circle(x, y, 3, class_="saved"))
    return picture


class _Line(draw.DrawingBasicElement):  # type: ignore[misc]
    """drawsvg has lines as paths only, whose places cannot be percent."""

    TAG_NAME = "line"


def _line(x1: str, y1: float, x2: str, y2: float, class_: str) -> _Line:
    return _Line(x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _picture(height: float, name: str) -> draw.Drawing:
    return draw.Drawing("100%", height, viewBox=None, role="img", aria_label=name)


def _grid(picture: draw.Drawing, axis: Axis, height: float) -> None:
    for place, text in axis.ticks():
        picture.append(_line(f"{place}%", 0, f"{place}%", height, class_="grid"))
        anchor = "start" if place == 0 else "end" if place > 88 else "middle"  # noqa: PLR2004
        said = draw.Text(text, TEXT, f"{place}%", height + TEXT, class_="axis", text_anchor=anchor)
        picture.append(said)


def _bar(
    picture: draw.Drawing,
    kind: str,
    bar: DrawnBar | RankLife,
    axis: Axis,
    y: int,
    height: int,
    said: str,
) -> None:
    begin, end = axis.place(bar.begin), axis.place(bar.end)
    wide = max(round(end - begin, 2), 0.1)
    shape = draw.Rectangle(f"{begin}%", y, f"{wide}%", height, class_=kind)
    shape.append_title(said)
    picture.append(shape)


def _of_bar(bar: DrawnBar, axis: Axis, words: Words) -> str:
    begin, end = ((at - axis.begin) / SECOND for at in (bar.begin, bar.end))
    said = words["bar"].format(kind=words[f"kind.{bar.kind}"], begin=about(begin), end=about(end))
    if bar.generation is None:
        return said
    return f"{words['generation'].format(generation=bar.generation)}: {said}"


def _of_life(life: RankLife, words: Words) -> str:
    ranks = words["ranks"].format(ranks=listed(map(run_text, runs(life.ranks))))
    return f"{ranks}, {words['generation'].format(generation=life.generation)}"


def _flag(picture: draw.Drawing, flag: PlacedFlag, top: int, lives_end: int) -> None:
    """A line across the bars, and its text below them."""
    x, bottom = f"{flag.place}%", lives_end + FLAG * (flag.lane + 1)
    picture.append(_line(x, top, x, bottom, class_="flag"))
    if not flag.text:
        return
    aside = {"dx": -4, "text_anchor": "end"} if flag.is_left else {"dx": 4}
    picture.append(draw.Text(flag.text, TEXT, x, bottom, class_="number", **aside))
