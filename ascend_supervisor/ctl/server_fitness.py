"""``doctor``: whether this server is fit for a job, as a table for people or as JSON.

The job is that of the supervisor that runs here, else one that this environment describes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.collection.running import arguments_of, checking, here, shown
from ascend_supervisor.ctl.collect import Collected
from ascend_supervisor.ctl.columns import facts, table
from ascend_supervisor.ctl.state import State
from ascend_supervisor.ctl.table_files import read_table_file
from ascend_supervisor.doctor.check import ThisServer, fit, hosts_to_ask, unknown, verdict_of
from ascend_supervisor.doctor.checks import OF_THE_PLAN, OF_THE_SERVER, ONLY_ASKED, checkup
from ascend_supervisor.doctor.npus import of_this_job
from ascend_supervisor.doctor.server_of_job import server_here
from ascend_supervisor.errors import UNAVAILABLE, Refusal
from ascend_supervisor.events.server import Fitness, Result
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.phrases import listed
from ascend_supervisor.processes.program_output import ProgramOutput, output_of
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import plain, printable

PROGRAM_SECONDS = 4.0
MOST_BYTES = 256 * 1024


class Examined(Struct, frozen=True):
    """``job`` says whose command line and environment count; ``rows`` are all of them."""

    job: str
    verdict: Fitness
    rows: tuple[Result, ...]

    @property
    def exit_code(self) -> int:
        return UNAVAILABLE if self.verdict == "unfit" else 0


def examined(subject: Collected, environ: Mapping[str, str], log_dir: str | None) -> Examined:
    """Look at this server, within 30 s; raises SettingsRefused as a supervisor would.

    ``log_dir`` is the one that an operator names: a job that has ended kept its logs there, and a
    state file does not tell with which other options it ran.
    """
    job, server, table = _job(subject, environ, log_dir)
    checks = (*OF_THE_SERVER, *OF_THE_PLAN, *ONLY_ASKED)
    found = anyio.run(checkup, server, checks, partial(_answer, server.environ))
    rows = (table, *of_this_job(found, server))
    return Examined(job, verdict_of(rows), rows)


def as_json(found: Examined) -> bytes:
    """One object."""
    return to_json(found, indent=True) + b"\n"


def as_text(found: Examined) -> str:
    """A table, and below it what to do about each row that is not fit."""
    lines = [found.job, "", *table(_HEADS, [(r.subject, r.verdict, r.found) for r in found.rows])]
    for row in found.rows:
        if row.verdict not in {"fit", "unknown"}:
            told = [("expected", row.expected), ("what to do", row.remedy)]
            lines += ["", f"{row.subject}: {row.verdict}", *(f"  {one}" for one in facts(told))]
    return "\n".join((*lines, ""))


_HEADS = ("subject", "verdict", "found")


def _job(
    subject: Collected, environ: Mapping[str, str], log_dir: str | None
) -> tuple[str, ThisServer, Result]:
    """Whose job it is, the server as this job wants it, and a row about its rank table."""
    state = subject.state
    if state is not None and state.supervisor_lives:
        running = shown(state.status.pid, frozenset({os.geteuid()}))
        arguments, check = arguments_of(running.words), checking(running.words)
        if arguments is not None and check is not None:
            server = server_here(arguments, running.environ, running.cwd)
            who = f"of {state.description}, with its command line and environment"
            server = _of_running(server, state)
            return _told(who, subject.path), *planned_server(
                server, check, running.environ, running.cwd
            )
    server, table = _of_environment(environ, log_dir)
    options = "and the default options"
    if log_dir is not None:
        options = f"and the default options but --log-dir {plain(log_dir)}"
    if state is None:
        return f"for a job with this environment {options}; none was found here", server, table
    why = "whose command line cannot be read" if state.supervisor_lives else "which has ended"
    who = f"of {state.description}, {why}: with this environment {options}"
    server = replace(server, ranks=len(state.status.ranks) or None)
    return _told(who, subject.path), server, table


def _of_environment(environ: Mapping[str, str], log_dir: str | None) -> tuple[ThisServer, Result]:
    named = () if log_dir is None else ("--log-dir", log_dir)
    server = replace(server_here((*named, "--", "any"), environ, here()), python="python3")
    program = sys.executable, "-m", "ascend_supervisor", "--check", "--json"
    check = *program, *named, "--", sys.executable
    return planned_server(server, check, environ, here())


def _told(who: str, path: Path) -> str:
    return f"for the job {who} (state file {plain(str(path))})"


def _of_running(server: ThisServer, state: State) -> ThisServer:
    """With the number of its ranks, and their environment if one of them runs."""
    ranks = [rank for rank in state.status.ranks if rank.rank is not None]
    living = (rank.pid for rank in ranks if state.rank_lives(rank))
    with suppress(StopIteration):
        inherited = shown(next(living), frozenset({os.geteuid()})).environ
        part = replace(server.part, may_hold_ports=True)
        server = replace(server, environ=inherited or server.environ, part=part)
    return replace(server, ranks=len(ranks) or None)


async def _answer(environ: Mapping[str, str], words: Sequence[str]) -> ProgramOutput:
    """What a program says: this one supervises nobody, and so may wait for it in a thread."""
    return await Call(partial(output_of, words, PROGRAM_SECONDS, MOST_BYTES, environ, "/")).result()


SUBJECT = "rank table"
PLAN_SECONDS, PLAN_BYTES = 8.0, 16 * 1024 * 1024
COMPLAINT = b"ascend_supervisor: "


class _Table(Struct, frozen=True):
    path: str
    format: str
    sha256: str
    servers: int


class _Here(Struct, frozen=True):
    entry: str
    node_rank: int
    ranks: tuple[int, ...]


class _Process(Struct, frozen=True):
    environment: dict[str, str | None]


class _Plan(Struct, frozen=True):
    rank_table: _Table
    this_server: _Here
    processes: tuple[_Process, ...]


class _Refused(Struct, frozen=True):
    reason: str


def planned_server(
    server: ThisServer, command: Sequence[str], environ: Mapping[str, str], cwd: Path
) -> tuple[ThisServer, Result]:
    """The server with what its plan tells, and a row about the rank table; takes 8 s at most.

    ``command`` is a supervisor with --check --json.
    """
    said = output_of(command, PLAN_SECONDS, PLAN_BYTES, environ, str(cwd))
    begin = said.text.find(b"{\n")
    with suppress(msgspec.MsgspecError):
        plan = msgspec.json.decode(said.text[begin:] if begin >= 0 else b"", type=_Plan)
        return _with_plan(server, plan), _row(plan)
    reason = next(_refusals(said.text), said.trouble or "--check has told no plan")
    return server, unknown(SUBJECT, printable(f"a start here would be refused: {reason}"))


def _refusals(text: bytes) -> Iterator[str]:
    """In an event or a sentence, as the options want it."""
    for line in text.splitlines():
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            yield msgspec.json.decode(line, type=_Refused).reason
        if line.startswith(COMPLAINT):
            yield line.removeprefix(COMPLAINT).decode(errors="replace")


def _row(plan: _Plan) -> Result:
    table, here = plan.rank_table, plan.this_server
    word = "rank" if len(here.ranks) == 1 else "ranks"
    ranks = f"{word} {listed(here.ranks, 16)}" if here.ranks else "no rank"
    return fit(
        SUBJECT,
        printable(
            f"{table.path} ({table.format}, sha256 {table.sha256}); this is {here.entry}, number "
            f"{here.node_rank} of {table.servers}, with {ranks}"
        ),
    )


def _with_plan(server: ThisServer, plan: _Plan) -> ThisServer:
    """What is in the file of the table, if it is one."""
    server = replace(server, ranks=server.ranks or len(plan.this_server.ranks) or None)
    try:
        table = read_table_file(plan.rank_table.path).table
        entry = table.entries[plan.this_server.node_rank]
    except (Refusal, IndexError):
        return server
    environ = {**server.environ, **(plan.processes[0].environment if plan.processes else {})}
    hosts = hosts_to_ask(table, plan.this_server.node_rank, environ)
    devices = tuple(device.device_id for device in entry.devices)
    return replace(server, devices=devices, part=replace(server.part, hosts=hosts))
