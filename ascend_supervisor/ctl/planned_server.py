"""What ``--check`` tells ``doctor``: whether a start would find its rank table, and its part in it.

A start refuses a table by itself, so only who asks is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.ctl.table_files import read_table_file
from ascend_supervisor.doctor.check import ThisServer, fit, hosts_to_ask, unknown
from ascend_supervisor.errors import Refusal
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import listed
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.untrusted_text import printable

SUBJECT = "rank table"
SECONDS = 8.0
MOST_BYTES = 16 * 1024 * 1024
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
    said = output_of(command, SECONDS, MOST_BYTES, environ, str(cwd))
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
