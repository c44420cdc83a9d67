"""To whom a sender belongs: tables, without processes."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.launchers.rank_environment import rank_names
from ascend_supervisor.life import Life, Living, Plan, Start
from ascend_supervisor.notify_socket.senders import (
    Ancestor,
    Lineage,
    OfLauncher,
    OfRank,
    Orphan,
    Stranger,
    kinship,
    rank_in,
)
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.settings.options import METHODS

RANK, OTHER, LAUNCHER, SERVER, ENDED = 10, 20, 30, 40, 50
WORKER = 31


def living(pid: int, rank: int | None = None, *, ended: bool = False, **more) -> Living:
    spec = ProcessSpec(("x",), PurePath("/"), PurePath("/log"), rank=rank, **more)
    workers = {WORKER: 7} if pid == LAUNCHER else {}
    return Living(spec, pid, Activity(0.0, has_ended=ended), (), workers)


def life(*processes: Living, devices: int = 8) -> Life:
    found = standalone_table(devices)
    return Life(Plan(Start(0, found, 0, found.table.entries[0], 0), ()), list(processes))


LIFE = life(
    living(RANK, 3),
    living(OTHER, 4),
    living(LAUNCHER, workers=2),
    living(SERVER, significant=False),
    living(ENDED, 5, ended=True),
)


def line(*members: tuple[int, int], leads_away: bool = False) -> Lineage:
    """A sender and its ancestors, as pid and session."""
    return Lineage(tuple(Ancestor(*member) for member in members), leads_away)


@pytest.mark.parametrize(
    ("lineage", "expected"),
    [
        (line((RANK, RANK)), OfRank(3)),
        (line((11, RANK), (RANK, RANK)), OfRank(3)),
        (line((12, 12), (11, RANK), (RANK, RANK)), OfRank(3)),
        (line((12, RANK)), OfRank(3)),  # its parent has ended
        (line((12, 12), (11, OTHER)), OfRank(4)),
        (line((WORKER, WORKER), (LAUNCHER, LAUNCHER)), OfRank(7)),
        (line((33, WORKER)), OfRank(7)),
        (line((33, 33), (WORKER, WORKER), (LAUNCHER, LAUNCHER)), OfRank(7)),
        (line((32, 32), (LAUNCHER, LAUNCHER)), OfLauncher()),
        (line((LAUNCHER, LAUNCHER)), OfLauncher()),
        (line((41, SERVER), (SERVER, SERVER)), Stranger()),
        (line((99, 99)), Orphan()),
        (line(), Orphan()),
        (line((ENDED, ENDED)), Orphan()),
        (line((99, 99), (1, 1), leads_away=True), Stranger()),
    ],
)
def test_the_nearest_process_that_we_started_decides(lineage, expected):
    assert kinship(lineage, LIFE) == expected


@pytest.mark.parametrize(("devices", "otherwise"), [(1, 0), (2, None)])
def test_a_command_that_is_the_only_rank_needs_no_name(devices, otherwise):
    command = life(living(60, leads_ranks=True), devices=devices)
    assert kinship(line((61, 60)), command) == OfLauncher(otherwise)


NAMES = rank_names("torchrun")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({b"RANK": b"3"}, 3),
        ({b"RANK_ID": b"4", b"RANK": b"3", b"OMPI_COMM_WORLD_RANK": b"2"}, 4),
        ({b"RANK_ID": b"", b"RANK": b"3"}, 3),
        ({b"OMPI_COMM_WORLD_RANK": b"2"}, 2),
        ({b"RANK": b"8"}, None),
        ({b"RANK": b"-1"}, None),
        ({b"RANK": b"three"}, None),
        ({b"RANK": b"\xd9\xa1"}, None),
        ({b"RANK": b"9" * 5000}, None),
        ({b"RANK": b"", b"PATH": b"/"}, 99),
        ({}, 99),
    ],
)
def test_the_rank_that_variables_name(environ, expected):
    assert rank_in(environ, NAMES, range(8), otherwise=99) == expected


@pytest.mark.parametrize("method", METHODS)
def test_below_mpirun_its_own_variable_counts_first(method):
    """The others may be those of the whole node."""
    environ = {b"RANK": b"1", b"OMPI_COMM_WORLD_RANK": b"5"}
    assert rank_in(environ, rank_names(method), range(8)) == (5 if method == "mpirun" else 1)
