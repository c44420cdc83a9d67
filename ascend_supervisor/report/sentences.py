"""What a report says of a job in one language, for the page and for a terminal alike; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone

from msgspec import Struct

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.phrases import about
from ascend_supervisor.report.drawing import SECOND
from ascend_supervisor.report.failures import GenerationEnd, ReportedFailure
from ascend_supervisor.report.job import Advice, FirstWord, ReportedJob
from ascend_supervisor.report.words import WORDS, Words

FIRST_FAILURES, LAST_FAILURES = 30, 10
"""So many are told; what lies between is counted."""
MOST_OTHERS, MOST_HOSTS = 20, 64
_IN_GENERAL: frozenset[Advice] = frozenset({"elsewhere", "memory", "read_lines", "read_sentence"})
"""In place of these a cause that is known says what to do."""
_UNNAMED = "failed first, in generation"


class FailureWords(Struct, frozen=True):
    """One failure, in words: what is ``known`` of it, with what to do, and what was told of it.

    ``quoted`` are several lines, ``flag`` is for its place in a chart.
    """

    number: int
    host: str
    at: int
    flag: str
    head: str
    known: str
    cause: str
    quoted: str
    places: str
    files_on: str
    files: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    others_count: int
    is_open: bool


class Sentences(Struct, frozen=True):
    """All that is said, in one language."""

    title: str
    begin: str
    headline: str
    bad: bool
    lead: tuple[tuple[str, str], ...]
    whole: str
    trained: str
    account: tuple[tuple[str, str, str, str], ...]
    progress: str
    failures: tuple[FailureWords, ...]
    failures_more: str
    command: str
    settings: tuple[tuple[str, tuple[str, ...]], ...]
    versions: tuple[str, ...]


def sentences(job: ReportedJob, language: Language) -> Sentences:
    """Everything but the charts."""
    words = WORDS[language]
    told = _chosen(job.failures)
    left = len(job.failures) - len(told)
    end = job.exit
    return Sentences(
        title=words["title"].format(name=job.name),
        begin=utc(job.begin),
        headline=_headline(job, words),
        bad=end is not None and end.code != 0,
        lead=tuple(_lead(job, language)),
        whole=words["account.of"].format(time=about(sum(job.account.values()))),
        trained=job.trained,
        account=tuple(_account(job.account, words)),
        progress=_progress(job, words),
        failures=tuple(_told(job, number, failure, language) for number, failure in told),
        failures_more=words["failures.more"].format(count=left) if left else "",
        command=shlex.join(job.starts[0].command) if job.starts else "",
        settings=tuple(_settings(job.starts, words)),
        versions=tuple(_versions(job, words)),
    )


def utc(at: int) -> str:
    """A moment for people."""
    return datetime.fromtimestamp(at / SECOND, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _headline(job: ReportedJob, words: Words) -> str:
    end, time = job.exit, about((job.end - job.begin) / SECOND)
    match job.advice:
        case "look_open":
            said = words["open"].format(time=time)
        case "runs":
            said = words["runs"].format(time=time)
        case "stands":
            said = f"{words['ran'].format(time=time)}{_stands(job, words)}"
        case "nothing" | "look_back":
            key = "done_again" if job.restarts else "done"
            return words[key].format(time=time, restarts=job.restarts)
        case "look_early":
            return words["done_doubtful"].format(time=time, restarts=job.restarts)
        case "who_stopped":
            return words["stopped"].format(time=time, code=0 if end is None else end.code)
        case _:
            said = words["failed"].format(time=time, code=0 if end is None else end.code)
    failure = job.last_failure
    if failure is None or not _is_of_rank(failure.first):
        return said
    return f"{said}{words['colon']}{_who(failure.first, words)}"


def _stands(job: ReportedJob, words: Words) -> str:
    """That the training stands still: now, or at the last event."""
    stall = job.stall
    if stall is None:
        return ""
    key = "stands_first" if stall.step is None else "stands"
    said = words[key].format(step=stall.step, since=utc(stall.at))
    return said if job.runs else f"{words['stands_then']}{said}"


def _is_of_rank(end: GenerationEnd) -> bool:
    return end.rank is not None and (end.is_hang or f"rank {end.rank} " in f"{end.cause} ")


def _who(end: GenerationEnd, words: Words) -> str:
    hung_or_failed = "rank_hung" if end.is_hang else "rank_failed"
    key = hung_or_failed if _is_of_rank(end) else "host_failed"
    return words[key].format(rank=end.rank, host=end.host, generation=end.generation)


def _lead(job: ReportedJob, language: Language) -> Iterator[tuple[str, str]]:
    """Why it ended, what led to restarts before, and what to do."""
    words = WORDS[language]
    end, last = job.exit, job.last_failure
    if end is not None and job.advice == "who_stopped":
        yield words["why"], end.reason
    elif last is not None:
        yield words["why"], _cause(last.first, language)
        if last.first.known is not None and last.first.known.leads:
            yield words["told"], why(last.first)
    elif end is not None and end.code:
        yield words["why"], end.cause[0] if end.cause else end.reason
    if end is not None and end.doubt:
        yield words["seen"], end.doubt
    if job.advice == "stands" and job.stall is not None and job.stall.seen:
        yield words["failure.where"], job.stall.seen
    before = [one.first for one in job.failures if one is not last and job.was_restarted(one)]
    for key, one in (("first", before[:1]), ("last", before[1:][-1:])):
        for found in one:
            yield words[key], f"{_who(found, words)}{words['colon']}{_cause(found, language)}"
    known = None if last is None else last.first.known
    if known is not None and job.advice in _IN_GENERAL:
        remedy = known.words(language)[1]
        yield words["to_do"], f"{remedy[:1].upper()}{remedy[1:]}{words['stop']}"
    else:
        yield words["to_do"], f"{words[f'advice.{job.advice}']}{_from_where(job, words)}"


def _cause(end: GenerationEnd, language: Language) -> str:
    """By the table of causes; if that does not say more, in the words of the supervisor."""
    if end.known is None or not end.known.leads:
        return why(end)
    return f"{end.known.words(language)[0]} [{end.known.id}]"


def why(end: GenerationEnd) -> str:
    """The cause without what names the rank, which is said before it."""
    who, _, rest = end.cause.partition(": ")
    named = f"rank {end.rank} "
    if who.startswith("server ") and rest.startswith(named):
        return f"it {rest.removeprefix(named)}"
    return rest if rest and _UNNAMED in who else end.cause


def _account(account: Mapping[str, float], words: Words) -> Iterator[tuple[str, str, str, str]]:
    whole = sum(account.values())
    for kind, seconds in account.items():
        if seconds > 0:
            yield kind, words[f"kind.{kind}"], about(seconds), f"{100 * seconds / whole:.1f} %"


def _progress(job: ReportedJob, words: Words) -> str:
    """The furthest step, and the latest that is saved; empty if none was told."""
    steps = [level.step for server in job.servers for level in server.levels]
    if not steps:
        return ""
    key = "progress.to" if job.steps is None else "progress.of"
    said = words[key].format(step=max(steps), steps=job.steps)
    saved = _saved(job)
    return (
        said
        if saved is None
        else f"{said}{words['comma']}{words['progress.saved'].format(step=saved)}"
    )


def _saved(job: ReportedJob) -> int | None:
    """The latest step that is in a checkpoint."""
    return max((one.step for server in job.servers for one in server.checkpoints), default=None)


def _from_where(job: ReportedJob, words: Words) -> str:
    """Where another start of a job that was stopped would go on; empty if it told no step."""
    if job.advice != "who_stopped" or not any(server.levels for server in job.servers):
        return ""
    saved = _saved(job)
    return words["unsaved"] if saved is None else words["saved"].format(step=saved)


def _chosen(failures: Sequence[ReportedFailure]) -> list[tuple[int, ReportedFailure]]:
    """The first and the last ones, with their numbers from 1."""
    numbered = [*enumerate(failures, 1)]
    if len(numbered) <= FIRST_FAILURES + LAST_FAILURES:
        return numbered
    return numbered[:FIRST_FAILURES] + numbered[-LAST_FAILURES:]


def _told(
    job: ReportedJob, number: int, failure: ReportedFailure, language: Language
) -> FailureWords:
    words = WORDS[language]
    end = failure.first
    after = about((end.at - job.begin) / SECOND)
    heads = [_who(end, words), words["failure.after"].format(time=after)]
    if end.steps_lost:
        heads.append(words["failure.lost"].format(steps=end.steps_lost))
    return FailureWords(
        number=number,
        host=end.host,
        at=end.at,
        flag=str(number)
        if end.rank is None
        else words["flag"].format(number=number, rank=end.rank),
        head=words["comma"].join(heads),
        known="" if end.known is None else end.known.told(language),
        cause=why(end),
        quoted="\n".join(end.quoted),
        places=end.places,
        files_on=words["failure.files"].format(host=end.host),
        files=tuple(dict.fromkeys(end.files)),
        others=tuple((other.host, other.cause) for other in failure.others[:MOST_OTHERS]),
        others_count=len(failure.others),
        is_open=failure in {job.last_failure, job.failures[0]},
    )


def _settings(starts: Sequence[FirstWord], words: Words) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Those of the first start, and what others have besides."""
    first = starts[0].settings if starts else ()
    yield "", first
    others = {start.host: [one for one in start.settings if one not in first] for start in starts}
    for host, settings in [*((host, found) for host, found in others.items() if found)][
        :MOST_HOSTS
    ]:
        yield words["settings.differ"].format(host=host), tuple(settings)


def _versions(job: ReportedJob, words: Words) -> Iterator[str]:
    for version in dict.fromkeys(start.version for start in job.starts[:1000]):
        yield words["version"].format(version=version)
    for start in job.starts[:1]:
        yield words["method"].format(method=start.method, cluster=start.cluster)
    ranks = len({rank for server in job.servers for life in server.lives for rank in life.ranks})
    yield words["size"].format(
        ranks=job.world_size or ranks, servers=len(job.servers), restarts=job.restarts
    )
