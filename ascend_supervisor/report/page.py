"""A report as one page of HTML that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping

from drawsvg import Drawing
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec.structs import asdict

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.report import chart
from ascend_supervisor.report.drawing import Axis, Flag, curve, finest, halves, ordered, placed
from ascend_supervisor.report.job import ReportedJob
from ascend_supervisor.report.sentences import Sentences, sentences, utc
from ascend_supervisor.report.servers import KINDS
from ascend_supervisor.report.words import WORDS, Words


def page(job: ReportedJob, language: Language) -> bytes:
    """The document, in UTF-8."""
    words = WORDS[language]
    said = sentences(job, language)
    templates = Environment(
        loader=PackageLoader("ascend_supervisor.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return (
        templates.get_template("page.html")
        .render(
            **asdict(said),
            **_charts(job, said, words),
            language=language,
            words=words,
            colon=words["colon"],
            legend=[(kind, words[f"kind.{kind}"]) for kind in _shown(job)],
            timeline_about=words["timeline.about"].format(begin=utc(job.begin)),
        )
        .encode()
    )


def _shown(job: ReportedJob) -> list[str]:
    """The kinds of bars that are there."""
    found = {bar.kind for server in job.servers for bar in server.bars}
    return [kind for kind in KINDS if kind in found]


def _charts(job: ReportedJob, said: Sentences, words: Words) -> Mapping[str, object]:
    axis = Axis(job.begin, job.end)
    told: dict[str, list[Flag]] = {}
    for failure in said.failures:
        told.setdefault(failure.host, []).append(Flag(failure.at, failure.flag))
    flags = {host: placed(of_host, axis) for host, of_host in told.items()}
    shortest = finest(axis, len(job.servers))
    shown, others = halves(ordered(job.servers, job.failures))
    found = curve(job.servers, axis, job.steps)
    first, rest = (chart.timeline(one, axis, shortest, flags, words) for one in (shown, others))
    return {
        "timeline_chart": _inline(first),
        "others_chart": _inline(rest) if others else "",
        "others": words["timeline.others"].format(count=len(others)),
        "progress_chart": _inline(chart.progress(found, axis, words)) if found else "",
        "account_chart": _inline(chart.account(job.account, words)),
    }


def _inline(picture: Drawing) -> Markup:
    """Drawsvg has escaped the texts."""
    return Markup(picture.as_svg(header=""))  # noqa: S704
