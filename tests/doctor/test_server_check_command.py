"""Which ranks the user's own check is asked of, whatever starts them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path, PurePath

import anyio.lowlevel
from msgspec.structs import replace

from ascend_supervisor.doctor.server_check_command import SECONDS, UsersCommand, environs_of_ranks
from ascend_supervisor.life import Plan
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.children import Children
from tests.probes.lives import life


def plan(*specs: ProcessSpec, ranks: int = 2) -> Plan:
    return replace(life(ranks=ranks).plan, specs=specs)


def spec(**more) -> ProcessSpec:
    return ProcessSpec(("train",), PurePath("/w"), PurePath("/l"), **more)


def test_a_rank_that_is_our_process_is_asked_with_its_own_variables():
    specs = [spec(rank=rank, environ={"RANK": str(rank), "HOME": None}) for rank in range(2)]
    asked = environs_of_ranks(plan(spec(title="the scheduler", environ={"X": "y"}), *specs))
    assert asked == {rank: {"RANK": str(rank), "HOME": None} for rank in range(2)}


def test_of_a_launcher_each_rank_of_this_server_is_asked_with_its_place():
    scheduler = spec(title="the scheduler", significant=False, environ={"MS_ROLE": "MS_SCHED"})
    msrun = spec(title="msrun", workers=2, environ={"PATH": "/opt"})
    asked = environs_of_ranks(plan(scheduler, msrun))
    assert list(asked) == [0, 1]
    place = ("RANK", "RANK_ID", "LOCAL_RANK", "DEVICE_ID", "WORLD_SIZE", "RANK_SIZE")
    assert asked[1] == {"PATH": "/opt", **dict(zip(place, "111122", strict=True))}


def test_without_a_known_rank_there_is_nobody_to_ask():
    without = plan(spec(title="the command", leads_ranks=True))
    start = replace(without.start, entry=replace(without.start.entry, devices=()))
    assert environs_of_ranks(replace(without, start=start)) == {}


async def test_a_command_that_does_not_end_is_killed_and_the_server_is_not_fit(tmp_path):
    """After 0.5 s here, in truth after a minute."""
    children = Children()
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, children.reap)
    words, pid = ("sh", "-c", "echo $$ > pid; echo waits; exec sleep 600"), Path(tmp_path, "pid")
    output = tmp_path / "output.txt"
    check = UsersCommand(
        words, children, os.environ, str(tmp_path), output, anyio.lowlevel.checkpoint, 0.5
    )
    try:
        with anyio.fail_after(60):
            (row,) = (await check.early()).rows
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
    assert row.verdict == "unfit"
    assert "sh has not ended within 0.5 s, and was killed" in row.found
    assert not Path("/proc", pid.read_text().strip()).exists()
    assert SECONDS == 60
