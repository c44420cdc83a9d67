"""A report as lines of text, for a terminal; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.phrases import about
from ascend_supervisor.report.drawing import SECOND, Axis, Curve, curve, halves, ordered
from ascend_supervisor.report.job import ReportedJob
from ascend_supervisor.report.sentences import FailureWords, Sentences, sentences
from ascend_supervisor.report.servers import KINDS, DrawnKind, ReportedServer
from ascend_supervisor.report.words import WORDS, Words

_LETTERS: Mapping[DrawnKind, str] = {
    "waiting": ".",
    "start": "-",
    "training": "=",
    "trained_again": "~",
    "stalled": "!",
    "running": "=",
    "stopping": "x",
    "drain": "d",
    "grace": "g",
    "release": "r",
    "restarting": ":",
}
_HEIGHTS = "▁▂▃▄▅▆▇█"
WIDTH = 72
FAILED = "F"
"""In place of the moment at which a rank failed first."""


def lines(job: ReportedJob, language: Language) -> Iterator[str]:
    """What the page says, the timeline in letters."""
    words = WORDS[language]
    said = sentences(job, language)
    yield f"{said.title}{words['comma']}{said.begin} UTC"
    yield said.headline
    for name, sentence in said.lead:
        yield f"{name}{words['colon']}{sentence}"
    yield from _account(said, words)
    axis = Axis(job.begin, job.end)
    if found := curve(job.servers, axis, job.steps):
        yield from (
            "",
            f"{words['progress']}{words['gap']}{said.progress}",
            f"  |{_steps(found, axis)}|",
        )
    yield from _timeline(job, axis, words)
    yield from ("", words["failures"])
    for one in said.failures:
        yield from _failure(one, words)
    if not said.failures or said.failures_more:
        yield f"  {said.failures_more or words['failures.none']}"
    yield from ("", words["settings"])
    if said.command:
        yield f"  {words['settings.command']}{words['colon']}{said.command}"
    for head, settings in said.settings:
        yield from (f"  {one}" for one in (*filter(None, (head,)), *settings))
    yield from ("", words["versions"], *(f"  {one}" for one in said.versions))


def _account(said: Sentences, words: Words) -> Iterator[str]:
    if said.account:
        yield from ("", f"{words['account']}{words['gap']}{said.whole}")
    for _, name, time, share in said.account:
        yield f"  {share:>7}  {time:>10}  {name}"
    if said.trained:
        yield f"  {said.trained}"


def _steps(found: Curve, axis: Axis) -> str:
    """Each letter is as high as the step of its time."""
    cells = [" "] * WIDTH
    for one, other in found.lines:
        begin, end = (min(int(axis.place(at.at) * WIDTH / 100), WIDTH - 1) for at in (one, other))
        for cell in range(begin, end + 1):
            part = (cell - begin) / max(end - begin, 1)
            step = one.step + (other.step - one.step) * part
            cells[cell] = _HEIGHTS[min(int(len(_HEIGHTS) * step / found.most), len(_HEIGHTS) - 1)]
    return "".join(cells)


def _timeline(job: ReportedJob, axis: Axis, words: Words) -> Iterator[str]:
    failed: dict[str, list[int]] = {}
    for failure in job.failures:
        failed.setdefault(failure.first.host, []).append(failure.first.at)
    shown, others = halves(ordered(job.servers, job.failures))
    kinds = {bar.kind for server in shown for bar in server.bars}
    legend = (f"{_LETTERS[kind]} {words[f'kind.{kind}']}" for kind in KINDS if kind in kinds)
    yield from ("", words["timeline"], f"  {'   '.join(legend)}")
    for server in shown:
        yield f"  {server.host}"
        yield f"  |{_row(server, axis, failed.get(server.host, ()))}|"
    yield f"  {'0 s':<{WIDTH}}{about(axis.length / SECOND)}"
    if others:
        yield f"  {words['timeline.others'].format(count=len(others))}"


def _row(server: ReportedServer, axis: Axis, failed: Sequence[int]) -> str:
    """Each letter is what most of its time was."""
    spent: list[dict[str, float]] = [{} for _ in range(WIDTH)]
    for bar in server.bars:
        begin, end = (axis.place(at) * WIDTH / 100 for at in (bar.begin, bar.end))
        for cell in range(int(begin), min(int(end) + 1, WIDTH)):
            part = min(end, cell + 1) - max(begin, cell)
            letter = _LETTERS[bar.kind]
            spent[cell][letter] = spent[cell].get(letter, 0.0) + part
    letters = [max(cell, key=lambda one: cell[one]) if cell else " " for cell in spent]
    for at in failed:
        letters[min(int(axis.place(at) * WIDTH / 100), WIDTH - 1)] = FAILED
    return "".join(letters)


def _failure(one: FailureWords, words: Words) -> Iterator[str]:
    yield f"  {one.number}. {one.head}"
    if one.known:
        yield f"     {one.known}"
    yield f"     {one.cause}"
    if one.places:
        yield f"     {words['failure.where']}{words['colon']}{one.places}"
    if one.quoted:
        yield from (f"       {line}" for line in one.quoted.split("\n"))
    if one.files:
        yield f"     {one.files_on}{words['colon']}{', '.join(one.files)}"
    for host, cause in one.others:
        yield f"     {host}{words['colon']}{cause}"
