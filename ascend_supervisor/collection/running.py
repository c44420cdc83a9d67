"""A supervisor or a rank that runs, as /proc shows it, and the plan of its words (--check)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec import Struct

from ascend_supervisor.collection.archive import Collector
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.processes.secrets import masked, masked_document


class RunningProcess(Struct, frozen=True):
    """What /proc shows of a process; nothing of one that is gone, or of another user.

    ``is_ours``: it is of our own user, so that what it names may be executed.
    """

    words: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    cwd: Path = Path("/")
    is_ours: bool = False

    def option(self, name: str) -> Path | None:
        """The path that a supervisor was given with ``--name``, or by its variable."""
        variable = f"ASCEND_SUPERVISOR_{name.upper().replace('-', '_')}"
        found = _option_in(self.words, f"--{name}") or self.environ.get(variable)
        return self.cwd / found if found else None


def here() -> Path:
    """Our own directory; the root if ours was removed."""
    with suppress(OSError):
        return Path.cwd()
    return Path("/")


def shown(pid: int, owners: frozenset[int] | None) -> RunningProcess:
    """What can be seen of the process ``pid``; nothing if it is of a user who is none of these.

    A state file that is forged may name any process.
    """
    with suppress(OSError):
        user = Path(f"/proc/{pid}").stat().st_uid
        if owners is None or user in owners:
            return _shown(pid, is_ours=user == os.geteuid())
    return RunningProcess()


def _shown(pid: int, *, is_ours: bool) -> RunningProcess:
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in proc.environ(pid).items()}
    cwd = Path("/")
    with suppress(OSError):
        cwd = Path(f"/proc/{pid}/cwd").readlink()
    return RunningProcess(tuple(proc.words(pid)), environ, cwd, is_ours)


def _option_in(words: Sequence[str], flag: str) -> str | None:
    """The value of an option, before the command of the ranks begins."""
    own = words[: words.index("--")] if "--" in words else words
    for word, following in zip(own, (*own[1:], ""), strict=False):
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
        if word == flag:
            return following
    return None


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
        collector.leave_out(SUBJECT, f"{said.trouble or 'no plan'}: {masked(said.first_line)}")
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


def supervisors(pids: Iterable[int] | None = None) -> Iterator[int]:
    """Those of ``pids``, by default of all here, with the command line of a supervisor."""
    here = proc.pids() if pids is None else pids
    return (pid for pid in here if arguments_of(proc.words(pid)) is not None)


def _plan(text: bytes) -> object:
    """The document; a sentence on stderr may stand before it."""
    begin = text.find(b"{\n")
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(text[begin:]) if begin >= 0 else None
    return None
