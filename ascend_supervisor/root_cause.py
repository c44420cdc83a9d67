"""The failure, told once: the same words in the last event, the termination log, the console."""

from __future__ import annotations

from ascend_supervisor.outcome import Crashed, Failure, Fault, Interrupted, NotStarted, Outcome

MOST_BYTES = 3800
"""A termination log holds 4096."""
LINE_CHARACTERS = 300


def root_cause(outcome: Outcome) -> str | None:
    """What failed first, where, when and how, then its last lines; None where nothing failed."""
    match outcome:
        case Crashed(failure=failure) | Interrupted(failure=Failure() as failure):
            return told(failure)
        case Fault(reason=reason) | NotStarted(reason=reason):
            return reason
        case _:
            return None


def told(failure: Failure) -> str:
    """At most MOST_BYTES; the first of the last lines are left out where there is no room."""
    memory = {True: ", because memory ran out (the kernel's OOM killer)", False: "", None: ""}
    head = (
        f"{failure.name} failed first, in generation {failure.generation}: it {failure.status}"
        f"{memory[failure.oom_killed]} after {failure.runtime_seconds:.1f} s"
    )
    if failure.exception:
        head += f"\nit raised: {_cut(failure.exception.strip(), 1000)}"
    lines = [_cut(line, LINE_CHARACTERS) for line in failure.last_lines if line.strip()]
    if not lines:
        return f"{head}\nit wrote nothing to its log, {failure.log}"
    title = f"\nthe last lines of {failure.log}:"
    while lines and len("\n  ".join((head, title, *lines)).encode()) > MOST_BYTES:
        lines = lines[1:]
    return "\n  ".join((head + title, *lines))


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
