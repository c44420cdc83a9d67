"""The failure in words: the same in the last event, the termination log, the console; pure."""

from __future__ import annotations

from ascend_supervisor.causes.diagnosis import Diagnosis, diagnosis_by
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Remedy,
)
from ascend_supervisor.phrases import QUOTED
from ascend_supervisor.untrusted_text import clipped, harmless_text, printable, within

MOST_BYTES = 3800
"""A termination log holds 4096."""
HIDDEN = "a pipe in a script hides a failure unless the script says set -o pipefail"
LAST_LINES = 20
LINE_CHARACTERS = 300
HEADLINE_CHARACTERS = 600
"""Of the cause in a headline: the whole text stands beside it."""


def root_cause(ended: Ended) -> Failure | str | None:
    """The first failure, or a sentence if it was not a process; None if nothing failed.

    A failure on another server, reported by the decisive fault, comes before a failure here.
    """
    decisive = ended.decisive
    if isinstance(decisive, Fault) and decisive.cause is not None:
        return decisive.cause
    match ended.outcome:
        case Crashed(failure=failure) | Interrupted(failure=Failure() as failure):
            return failure
        case Fault(reason=reason) | NotStarted(reason=reason):
            return within(printable(reason), MOST_BYTES)
        case Interrupted():
            charged = [one.reason for one in ended.faults if one.remedy is not Remedy.FREE]
            return within(printable(charged[0]), MOST_BYTES) if charged else None
        case _:
            return None


def cause_in_short(ended: Ended) -> str:
    """The root cause on one line, with the exception of a failure; empty if nothing failed."""
    cause = root_cause(ended)
    if isinstance(cause, Failure):
        return headline(_head(cause))
    return (cause or "").partition("\n")[0]


def cause_first(cause: Failure | str | None, reason: str) -> str:
    """The first line of ``cause``, and then the ``reason`` of the end, unless that has it.

    Whoever reads only the last event must not take the restart budget for the cause.
    """
    if isinstance(cause, Failure):
        return f"{headline(_head(cause))}; {reason}"
    first = (cause or "").partition("\n")[0]
    return reason if not first or first in reason else f"{headline(first)}; {reason}"


def doubt(ended: Ended) -> str:
    """What was seen that speaks against the success of all processes here; empty if nothing was."""
    if not isinstance(ended.outcome, Completed):
        return ""
    short = ended.reached.short
    seen = "" if short is None else f"the last step seen is {short}"
    told = " and ".join(filter(None, (seen, ended.unheeded)))
    has_script = ended.unheeded or ended.outcome != Completed()
    return f"{told}; {HIDDEN}" if told and has_script else told


def diagnosis(cause: Failure | str | None, ended: Ended | None) -> Diagnosis | None:
    """What the table of causes knows of it; ``ended`` is the generation here.

    The failure here was looked at. Of one that another server has told, the id counts, and no
    other word; if that server had not looked either, the lines of a rank that has them alone.
    """
    if not isinstance(cause, Failure):
        return None
    here = None if ended is None else _failure_here(ended)
    if here is not None and _is_same(here, cause):
        return here.diagnosis
    from ascend_supervisor.causes.table import CAUSES  # noqa: PLC0415  (see late_imports)
    from ascend_supervisor.evidence.diagnosed import diagnosis_of  # noqa: PLC0415

    if cause.diagnosis is not None:
        row = CAUSES.get(cause.diagnosis.id)
        return None if row is None else diagnosis_by(row, cause.diagnosis.rank)
    return None if cause.is_shared else diagnosis_of(cause)


def _failure_here(ended: Ended) -> Failure | None:
    match ended.outcome:
        case Crashed(failure=failure) | Interrupted(failure=Failure() as failure):
            return failure
        case _:
            return None


def _is_same(one: Failure, other: Failure) -> bool:
    return (one.generation, one.name, one.status, one.log) == (
        *(other.generation, other.name, other.status, other.log),
    )


def _said(failure: Failure) -> str | None:
    """What it says of its end, where nobody has looked yet."""
    from ascend_supervisor.evidence.last_words import words_of  # noqa: PLC0415  (see late_imports)
    from ascend_supervisor.evidence.statement import statement  # noqa: PLC0415

    return statement(failure, words_of(failure))


def headline(sentence: str) -> str:
    """As much of it as a line has room for, on one line."""
    return clipped(printable(sentence), HEADLINE_CHARACTERS)


def failure_text(failure: Failure, server: int | None = None) -> str:
    """Which process failed, where, when, how and why, then up to LAST_LINES of its log.

    ``server`` is the index of its server, if several servers agree; the log is on that one.
    At most MOST_BYTES; if there is no room, the earliest lines are left out.

    It is read in terminals, so a rank's lines are indented and contain no control characters.
    """
    head = _head(failure, server)
    if failure.exception:
        message = clipped(harmless_text(failure.exception.strip()), 1000)
        head += "\nit raised: " + message.replace("\n", "\n  ")
    shown = [harmless_text(line) for line in failure.last_lines[-LAST_LINES:]]
    lines = [clipped(line, LINE_CHARACTERS) for line in shown if line.strip()]
    log = printable(failure.log)
    if not lines:
        return within(f"{head}\nit wrote nothing to its log, {log}", MOST_BYTES)
    title = f"\n{QUOTED} {log}:"
    while lines and _size("\n  ".join((head, title, *lines))) > MOST_BYTES:
        lines = lines[1:]
    return within("\n  ".join((head + title, *lines)), MOST_BYTES)


def _head(failure: Failure, server: int | None = None) -> str:
    """Which process failed, where, when and how; what it said of its end if nothing else says why.

    One line, the same wherever a cause is named.
    """
    memory = {True: ", because memory ran out (the kernel's OOM killer)", False: "", None: ""}
    name, generation = printable(failure.name), failure.generation
    head = f"{name} failed first, in generation {generation}: "
    if failure.alike:
        head = f"{failure.alike} failed alike, first {name}, in generation {generation}: "
    why = memory[failure.oom_killed]
    head += f"it {failure.status}{why} after {failure.runtime_seconds:.1f} s"
    head += "" if server is None else f", on server {server}"
    if failure.oom_kills is not None:
        before, after = failure.oom_kills
        who = (
            "meanwhile: the kernel's OOM killer killed it or another process of our memory cgroup"
            if failure.oom_killed is None and failure.status.signal is not None
            else "before that: the kernel's OOM killer killed a process of our memory cgroup, such "
            "as a child of a rank"
        )
        head += f"; memory ran out {who} (oom_kill rose from {before} to {after})"
    elif failure.status.signal_name == "SIGKILL" and not failure.oom_killed and not failure.memory:
        head += _OOM_COUNTER[failure.oom_killed]
    head += f"; {failure.advice}" if failure.advice else ""
    for why in filter(None, (failure.memory, failure.reason, failure.meaning)):
        head += f": {clipped(printable(why), 1000)}"
    is_explained = failure.reason or failure.meaning or failure.oom_killed
    if is_explained or len(head) > HEADLINE_CHARACTERS:
        return head
    said = failure.said or _said(failure)
    return head if said is None else _clause(headline(f"{head}: {harmless_text(said.strip())}"))


def _clause(sentence: str) -> str:
    """Without the full stop of a message: more follows."""
    return sentence if sentence.endswith("..") else sentence.removesuffix(".").removesuffix("。")


_OOM_COUNTER = {
    False: " (the kernel's OOM counter did not rise)",
    None: " (whether memory ran out is unknown)",
}


def _size(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))
