"""The probe that ends a generation whose ranks are silent: when it looks, and what it answers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.life import Life, Notified
from ascend_supervisor.outcome import Crashed, Fault
from ascend_supervisor.probes.silence import LOOK_AGAIN_SECONDS, MOST_SECONDS, Limits, Silence
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.processes.proc import is_zombie
from tests.clocks import LeapingClock
from tests.probes.lives import life, rank, torchrun, wrote
from tests.running import wait_until
from tests.workers.test_generation import ManualClock, Stage

TRIGGERED = Notified(0.0, gave_up_at=0.0)
LOOKS = 20
"""So often it looks before a hang that it takes for none would have to show."""


class Slept(LeapingClock):
    """Notes how long every sleep was; in the first ones happens what ``then`` says."""

    def __init__(self, then: Sequence[Callable[[], object]] = ()) -> None:
        super().__init__()
        self.sleeps: list[float] = []
        self._then = list(then)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if self._then:
            self._then.pop(0)()
        await super().sleep(seconds)


async def asked(probe: Silence, lived: Life) -> Fault:
    with anyio.fail_after(20):
        return await probe.must_end(lived)


async def unanswered(probe: Silence, lived: Life, is_enough: Callable[[], bool]) -> None:
    """It is asked until ``is_enough``, however slow this machine is, and does not answer."""
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            raise AssertionError(await probe.must_end(lived))

        tasks.start_soon(ask)
        with anyio.fail_after(20):
            while not is_enough():
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_it_sleeps_until_a_limit_can_pass_and_no_shorter():
    activity = wrote(0.0)
    lived = life(rank(0, activity))

    def speak() -> None:
        activity.spoke_at = 45.0

    clock = Slept([speak])
    fault = await asked(Silence(Limits(hang=60.0), clock, lambda _: None), lived)
    assert fault.exit_code == 124
    assert clock.sleeps == [60.0, 45.0]


async def test_without_limits_it_does_not_look_but_once_an_hour():
    clock = Slept()
    probe = Silence(Limits(), clock, lambda _: None)
    await unanswered(probe, life(rank(0, wrote(0))), lambda: len(clock.sleeps) > LOOKS)
    assert set(clock.sleeps) == {MOST_SECONDS}


async def test_asked_again_it_answers_the_same_at_once_and_reports_no_second_time():
    events: list[Event] = []
    clock = LeapingClock()
    probe = Silence(Limits(hang=60.0), clock, events.append)
    lived = life(rank(0, wrote(0.0)))
    fault = await asked(probe, lived)
    lived.is_ending = True
    clock.time += 1000
    with anyio.fail_after(0):  # a deadline in the past: nothing is waited for
        assert await probe.must_end(lived) == fault
    assert [type(event) for event in events] == [HangNoticed]


async def test_every_generation_has_its_own_hang():
    events: list[Event] = []
    probe = Silence(Limits(hang=60.0), LeapingClock(), events.append)
    for _ in range(2):
        await asked(probe, life(rank(0, wrote(0.0))))
    assert len(events) == 2


async def test_a_rank_that_says_that_it_hangs_is_heard_at_once_also_without_limits():
    lived = life(rank(0, wrote(0.0)))
    probe = Silence(Limits(), ManualClock(), lambda _: None)  # on this clock nobody wakes up
    faults: list[Fault] = []

    async def listen() -> None:
        faults.append(await asked(probe, lived))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        lived.notified[0] = Notified(0.0)
        lived.tell_notified()
        await anyio.wait_all_tasks_blocked()
        assert faults == []
        lived.notified[0] = TRIGGERED
        lived.tell_notified()
    assert "WATCHDOG=trigger" in faults[0].reason


async def test_a_shorter_limit_of_a_ranks_own_counts_at_once_not_at_the_next_look():
    lived = life(rank(0, wrote(0.0)))
    clock = ManualClock()
    probe = Silence(Limits(watchdog=600.0), clock, lambda _: None)
    faults: list[Fault] = []

    async def listen() -> None:
        faults.append(await asked(probe, lived))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        lived.notified[0] = Notified(0.0, watchdog_at=0.0, watchdog_seconds=2.0)
        lived.tell_notified()
        await anyio.wait_all_tasks_blocked()
        clock.advance(2.0)
    assert "rank 0 has not sent WATCHDOG=1 for 2 s" in faults[0].reason


async def test_nothing_is_a_hang_when_the_generation_is_being_ended():
    lived = life(rank(0, wrote(0.0)))

    def end() -> None:
        lived.is_ending = True

    clock = Slept([end])
    probe = Silence(Limits(hang=60.0), clock, lambda _: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(probe.must_end, lived)
        await anyio.wait_all_tasks_blocked()  # it sleeps for ever: on its clock nobody else waits
        tasks.cancel_scope.cancel()
    assert clock.sleeps == [60.0]


async def test_a_worker_is_gone_when_somebody_else_has_its_number():
    """We live, but we are no child of the launcher."""
    lived = life(torchrun(wrote(0.0), {os.getpid(): 0}, workers=1), servers=2)
    clock = Slept()
    probe = Silence(Limits(60.0, None, 60.0, 60.0), clock, lambda _: None)
    await unanswered(probe, lived, lambda: len(clock.sleeps) > LOOKS)


def zombie() -> subprocess.Popen[bytes]:
    """A child that has ended and was not waited for."""
    child = subprocess.Popen(["true"])
    wait_until(lambda: is_zombie(child.pid))
    return child


async def test_a_worker_that_its_launcher_has_not_waited_for_has_ended():
    with zombie() as worker:
        launched = replace(torchrun(wrote(0.0), {worker.pid: 0}, workers=1), pid=os.getpid())
        clock = Slept()
        probe = Silence(Limits(hang=60.0), clock, lambda _: None)
        lived = life(launched, servers=2)
        await unanswered(probe, lived, lambda: len(clock.sleeps) > LOOKS)


async def test_while_no_file_can_be_opened_to_look_nothing_is_a_hang():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    clock = Slept([lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))])
    launched = torchrun(wrote(0.0), {os.getpid(): 0})
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        await asked(Silence(Limits(hang=60.0), clock, lambda _: None), life(launched))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert clock.sleeps == [LOOK_AGAIN_SECONDS, 59.0]


# With real processes.

SILENT = "import os; os.write(1, b'up\\n'); os.read(os.pipe()[0], 1)"
UNTIL = """
import os, pathlib, time
os.write(1, b"up\\n")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
"""


def probe_of(stage: Stage, limits: Limits) -> Silence:
    return Silence(limits, stage.clock, stage.events.append)


def noticed(stage: Stage) -> list[HangNoticed]:
    return [event for event in stage.events if isinstance(event, HangNoticed)]


async def test_ranks_that_are_silent_are_looked_at_and_ended(stage):
    probe = probe_of(stage, Limits(hang=0.3, startup=60.0))

    async def must_end() -> Fault:
        return await probe.must_end(stage.lived)

    outcome = await stage.run([stage.spec(0, SILENT), stage.spec(1, SILENT)], must_end)
    (event,) = noticed(stage)
    assert isinstance(outcome, Fault)
    assert outcome.reason == f"{event.reason}; all ranks wait in main"
    assert (set(event.ranks), event.last_lines) == ({0, 1}, ("up", "up"))
    assert stage.alive_when_looked == [True]
    assert stage.ended.faults == ()
    assert {end.signal for end in stage.exits.values()} == {"SIGTERM"}


@pytest.fixture
def by_hand(stage: Stage) -> ManualClock:
    stage.clock = ManualClock()
    return stage.clock


async def test_a_rank_that_is_silent_in_its_last_checkpoint_does_not_hang(stage, by_hand):
    probe = probe_of(stage, Limits(60.0, 60.0, 60.0, 60.0))
    saves, fails = stage.spec(0, UNTIL), stage.spec(1, UNTIL + "raise SystemExit(3)")

    async def must_end() -> Fault:
        return await probe.must_end(stage.lived)

    async def an_hour_later() -> Fault:
        await stage.up(0, 1)
        Path(fails.cwd, "go").touch()
        while 1 not in stage.exits:
            await anyio.sleep(0.005)
        await anyio.wait_all_tasks_blocked()  # the drain has begun
        by_hand.advance(3600)
        await anyio.wait_all_tasks_blocked()
        Path(saves.cwd, "go").touch()
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await stage.run([saves, fails], must_end, an_hour_later, drain=30)
    assert isinstance(outcome, Crashed)
    assert stage.exits[0].status == 0
    assert (noticed(stage), stage.looks, stage.ended.faults) == ([], [], ())


WORKERS = """
import os, subprocess, sys
source = sys.argv[1]
workers = [
    subprocess.Popen(
        [sys.executable, "-c", source],
        env={{**os.environ, "RANK_ID": str(rank)}},
        stdout=open(f"{place}/worker_{{rank}}.log", "wb") if {has_logs} else None,
        start_new_session=True,
    )
    for rank in range(2)
]
sys.exit(max(worker.wait() for worker in workers))
"""
ONE_ENDS = """
import os, pathlib, time
ends = os.environ["RANK_ID"] == "0"
while not (ends and pathlib.Path("go").exists()):
    os.write(1, b".\\n")
    time.sleep(0.05)
"""


def launcher(stage: Stage, source: str, *, has_logs: bool) -> ProcessSpec:
    """A launcher of two workers that do what ``source`` says."""
    logs = [WorkerLog(stage.root / f"worker_{number}.log", number, number) for number in range(2)]
    text = WORKERS.format(place=stage.root, has_logs=has_logs)
    return ProcessSpec(
        argv=(sys.executable, "-c", text, source),
        cwd=stage.root / "here",
        log=stage.root / "launcher.txt",
        title="the launcher",
        workers=2,
        worker_logs=tuple(logs) if has_logs else (),
    )


async def until_seen(stage: Stage) -> None:
    """Until both workers were seen."""
    while not (lived := stage.lived.processes) or len(lived[0].ranks_of_workers) < 2:
        await anyio.sleep(0.005)


@pytest.mark.parametrize("has_logs", [True, False])
async def test_workers_that_are_silent_hang(stage, has_logs):
    probe = probe_of(stage, Limits(hang=0.5, startup=60.0))

    async def must_end() -> Fault:
        return await probe.must_end(stage.lived)

    spec = launcher(stage, SILENT, has_logs=has_logs)
    assert isinstance(await stage.run([spec], must_end), Fault)
    (event,) = noticed(stage)
    assert set(event.ranks) == set(range(2 if has_logs else 8))  # those that it may have started


@pytest.mark.long
async def test_a_worker_that_has_ended_is_not_silent_but_one_that_stands_still_is(stage):
    limit = 5.0
    probe = probe_of(stage, Limits(rank_hang=limit, startup=60.0))

    async def must_end() -> Fault:
        return await probe.must_end(stage.lived)

    async def stop_the_other() -> Fault:
        await until_seen(stage)
        (launched,) = stage.lived.processes
        ends, speaks = launched.activity_of_workers
        (stage.root / "here" / "go").touch()
        while speaks.spoke_at < ends.spoke_at + limit + 0.5:
            await anyio.sleep(0.01)
        assert noticed(stage) == []
        pids = {rank: pid for pid, rank in launched.ranks_of_workers.items()}
        os.kill(pids[1], signal.SIGSTOP)
        await anyio.sleep_forever()
        raise AssertionError

    await stage.run([launcher(stage, ONE_ENDS, has_logs=True)], must_end, stop_the_other)
    (event,) = noticed(stage)
    assert (event.ranks, event.source) == ((1,), "rank_silence")
