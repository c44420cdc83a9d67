"""``--check`` with the command line, environment and directory of a supervisor that runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from ascend_supervisor.collection.collector import Collector
from ascend_supervisor.collection.machine import first_line
from ascend_supervisor.collection.masked_values import masked_document
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.program_output import output_of

NAME = "supervisor/check.json"
SUBJECT = "the plan (--check)"
SECONDS = 20.0
MOST_BYTES = 16 * 1024 * 1024
SCRIPT, MODULE = "ascend-supervisor", "ascend_supervisor"
CHECK = ("--check", "--json")


def add_check(collector: Collector, pid: int) -> None:
    """Take the plan of the supervisor ``pid``.

    Not if it is that of another user: its variables would steer what we start.
    """
    command = checking(proc.words(pid))
    place = Path(f"/proc/{pid}")
    try:
        if place.stat().st_uid != os.geteuid():
            collector.leave_out(SUBJECT, f"process {pid} is that of another user")
            return
        directory = str((place / "cwd").readlink())
    except OSError as error:
        collector.leave_out(SUBJECT, reason_of(error))
        return
    if command is None:
        collector.leave_out(SUBJECT, f"the command line of process {pid} is not as expected")
        return
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in proc.environ(pid).items()}
    said = output_of(command, SECONDS, MOST_BYTES, environ, directory)
    plan = _plan(said.text)
    if plan is None:
        collector.leave_out(SUBJECT, f"{said.trouble or 'no plan'}: {first_line(said.text)}")
    else:
        text = to_json(masked_document(plan), indent=True) + b"\n"
        collector.add_text(NAME, "--check --json", text, "masked by names and forms")


def checking(words: Sequence[str]) -> list[str] | None:
    """The command line of a supervisor with --check; None if it is none of ours."""
    for index, word in enumerate(words[:10]):
        is_module = word == MODULE and index and words[index - 1] == "-m"
        if is_module or word.rpartition("/")[2] == SCRIPT:
            return [*words[: index + 1], *CHECK, *words[index + 1 :]]
    return None


def _plan(text: bytes) -> object:
    """The document; a sentence on stderr may stand before it."""
    begin = text.find(b"{\n")
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text[begin:]) if begin >= 0 else None
    return None
