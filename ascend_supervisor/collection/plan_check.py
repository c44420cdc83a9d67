"""``--check`` with the command line, environment and directory of a supervisor that runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import orjson

from ascend_supervisor.collection.collector import Collector
from ascend_supervisor.collection.machine import first_line
from ascend_supervisor.collection.running import RunningProcess
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.processes.secrets import masked, masked_document

NAME = "supervisor/check.json"
SUBJECT = "the plan (--check)"
SECONDS = 20.0
MOST_BYTES = 16 * 1024 * 1024
SCRIPT, MODULE = "ascend-supervisor", "ascend_supervisor"
CHECK = ("--check", "--json")


def add_check(collector: Collector, supervisor: RunningProcess) -> None:
    """Take the plan of a supervisor.

    Not if it is that of another user: its variables would steer what we start.
    """
    command = checking(supervisor.words)
    if not supervisor.is_ours:
        collector.leave_out(SUBJECT, "the supervisor does not run as the user who collects")
        return
    if command is None:
        collector.leave_out(SUBJECT, "the command line of the supervisor is not as expected")
        return
    directory = str(supervisor.cwd)
    said = output_of(command, SECONDS, MOST_BYTES, supervisor.environ, directory)
    plan = _plan(said.text)
    if plan is None:
        collector.leave_out(
            SUBJECT, f"{said.trouble or 'no plan'}: {masked(first_line(said.text))}"
        )
    else:
        text = to_json(masked_document(plan), indent=True) + b"\n"
        collector.add_text(NAME, "--check --json", text, "masked by names and forms")


def checking(words: Sequence[str]) -> list[str] | None:
    """The command line of a supervisor with --check; None if it is none of ours."""
    arguments = arguments_of(words)
    if arguments is None:
        return None
    return [*words[: len(words) - len(arguments)], *CHECK, *arguments]


def arguments_of(words: Sequence[str]) -> Sequence[str] | None:
    """What a supervisor with this command line reads; None if it is none of ours."""
    for index, word in enumerate(words[:10]):
        is_module = word == MODULE and index and words[index - 1] == "-m"
        if is_module or word.rpartition("/")[2] == SCRIPT:
            return words[index + 1 :]
    return None


def _plan(text: bytes) -> object:
    """The document; a sentence on stderr may stand before it."""
    begin = text.find(b"{\n")
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text[begin:]) if begin >= 0 else None
    return None
