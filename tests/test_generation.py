"""One life of the worker group, with real processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.errors import UNAVAILABLE, CommandNotFound
from ascend_supervisor.events import Event, ProcessExited, ProcessStarted
from ascend_supervisor.generation import Ending, Patience, prepare, run_generation
from ascend_supervisor.interrupts import Interrupts
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    ExitStatus,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
)
from ascend_supervisor.plumbing.children import Children
from ascend_supervisor.plumbing.clock import Clock, MonotonicClock
from ascend_supervisor.plumbing.kernel import become_subreaper
from ascend_supervisor.plumbing.log_file import Rotation
from ascend_supervisor.plumbing.ownership import Ownership
from ascend_supervisor.plumbing.proc import descendants
from ascend_supervisor.rank_logs import RankLogs
from ascend_supervisor.spec import ProcessSpec
from ascend_supervisor.worker_group import Surroundings

WAIT = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT


@dataclass
class Stage:
    """Where generations run in a test."""

    root: Path
    children: Children = field(default_factory=Children)
    events: list[Event] = field(default_factory=list)
    oom_kills: list[int | None] = field(default_factory=lambda: [None])
    clock: Clock = field(default_factory=MonotonicClock)

    def __post_init__(self) -> None:
        self.logs = RankLogs(Rotation(1 << 30, 1), "a test", self.events.append)
        self.interrupts = Interrupts(self.events.append, self.logs.reopen, self.clock)

    def spec(self, rank: int, source: str, **more) -> ProcessSpec:
        return ProcessSpec(
            argv=more.pop("argv", (sys.executable, "-c", source)),
            cwd=self.root / f"device{rank}",
            log=self.root / f"rank{rank}.txt",
            rank=rank,
            local_rank=rank,
            **more,
        )

    async def run(
        self,
        specs: Sequence[ProcessSpec],
        *endings: Ending,
        drain: float = 0.0,
        grace: float = 20.0,
    ) -> Outcome:
        with anyio.fail_after(40):
            await self.prepare(specs)
            return await run_generation(
                specs, 0, self.around, self.interrupts, Patience(drain, grace), endings
            )

    async def prepare(self, specs: Sequence[ProcessSpec]) -> None:
        await prepare(specs, self.around)

    @property
    def around(self) -> Surroundings:
        return Surroundings(
            children=self.children,
            ownership=Ownership("nobody's", frozenset()),
            logs=self.logs,
            mirror=lambda *_: None,
            environ=dict(os.environ),
            oom_kills=lambda: self.oom_kills[-1],
            clock=self.clock,
            report=self.events.append,
        )

    async def up(self, *ranks: int) -> None:
        """Wait until these ranks have said so."""
        for rank in ranks:
            path = self.root / f"rank{rank}.txt"
            while not (path.exists() and b"\nup\n" in path.read_bytes()):
                await anyio.sleep(0.01)

    @property
    def exits(self) -> dict[int | None, ProcessExited]:
        return {event.rank: event for event in self.events if isinstance(event, ProcessExited)}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    become_subreaper()
    place = Stage(tmp_path)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, place.children.reap)
    yield place
    loop.remove_signal_handler(signal.SIGCHLD)
    assert descendants(os.getpid()) == []


async def test_it_is_completed_when_all_have_ended_with_0(stage):
    assert await stage.run([stage.spec(0, ""), stage.spec(1, "")]) == Completed()
    assert {event.status for event in stage.exits.values()} == {0}


async def test_the_first_failure_is_the_outcome_with_its_last_words(stage):
    died = "import sys; print('the cause'); sys.exit(3)"
    outcome = await stage.run([stage.spec(0, WAIT), stage.spec(1, died)])
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.rank, outcome.failure.status) == (1, ExitStatus(3))
    assert outcome.failure.last_lines == ("the cause",)
    assert stage.exits[0].signal == "SIGTERM"
    assert not stage.exits[0].first_failure


async def test_what_is_not_significant_is_not_waited_for(stage):
    server = stage.spec(1, WAIT, significant=False)
    assert await stage.run([stage.spec(0, ""), server]) == Completed()


async def test_what_is_not_significant_may_fail_the_group_all_the_same(stage):
    server = stage.spec(1, "raise SystemExit(4)", significant=False)
    outcome = await stage.run([stage.spec(0, WAIT), server])
    assert isinstance(outcome, Crashed)
    assert outcome.failure.rank == 1


async def test_the_exception_in_the_error_file_is_told(stage):
    path = stage.root / "errors" / "0.json"
    path.parent.mkdir()
    path.write_text('{"message": "of an earlier life"}')
    source = (
        "import json, sys; error = {'message': {'message': 'ValueError: no', 'extraInfo': {}}}\n"
        f"json.dump(error, open({str(path)!r}, 'w')); sys.exit(1)"
    )
    outcome = await stage.run([stage.spec(0, source, error_file=path)])
    assert isinstance(outcome, Crashed)
    assert outcome.failure.exception == "ValueError: no"


async def test_an_error_file_of_an_earlier_life_is_not_believed(stage):
    path = stage.root / "0.json"
    path.write_text('{"message": "of an earlier life"}')
    outcome = await stage.run([stage.spec(0, "raise SystemExit(1)", error_file=path)])
    assert isinstance(outcome, Crashed)
    assert outcome.failure.exception is None


@pytest.mark.parametrize(
    "content",
    [
        "b''",
        "b'{'",
        "b'[]'",
        "b'\\xff'",
        "b'{\"message\": 5}'",
        'b\'{"message": {"text": "no"}}\'',
        "b'{\"message\": \"' + 65536 * b'x' + b'\"}'",
    ],
)
async def test_an_error_file_that_is_not_as_expected_is_ignored(stage, content):
    path = stage.root / "0.json"
    source = f"open({str(path)!r}, 'wb').write({content}); raise SystemExit(1)"
    outcome = await stage.run([stage.spec(0, source, error_file=path)])
    assert isinstance(outcome, Crashed)
    assert outcome.failure.exception is None
    assert path.exists()


@pytest.mark.parametrize(
    ("before", "after", "said"), [(3, 3, False), (3, 4, True), (None, None, None)]
)
async def test_an_oom_kill_is_told_as_a_fact_or_not_at_all(stage, before, after, said):
    stage.oom_kills.append(before)

    async def then() -> Outcome:
        await stage.up(0)
        stage.oom_kills.append(after)
        started = next(e for e in stage.events if isinstance(e, ProcessStarted))
        os.kill(started.child_pid, signal.SIGKILL)
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await stage.run([stage.spec(0, WAIT)], then)
    assert isinstance(outcome, Crashed)
    assert outcome.failure.oom_killed is said


async def test_a_command_that_is_missing_is_refused_before_anything_is_started(stage):
    specs = [stage.spec(0, WAIT), stage.spec(1, "", argv=("no-such-program",))]
    with pytest.raises(CommandNotFound, match="rank 1: 'no-such-program' was not found in PATH"):
        await stage.run(specs)
    assert stage.events == []


async def test_a_spawn_that_fails_ends_those_before_it(stage):
    huge = {"HUGE": "x" * (1 << 18)}  # more than Linux takes for one string: E2BIG
    outcome = await stage.run([stage.spec(0, WAIT), stage.spec(1, WAIT, environ=huge)])
    assert isinstance(outcome, NotStarted)
    assert "Argument list too long" in outcome.reason
    assert set(stage.exits) == {0}


async def test_a_machine_without_room_for_another_process_is_a_fault(stage):
    specs = [stage.spec(rank, WAIT) for rank in range(8)]
    await stage.prepare(specs)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 6, hard))
    try:
        outcome = await stage.run(specs)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert isinstance(outcome, Fault), outcome


async def test_a_fault_from_outside_ends_the_group(stage):
    async def fault() -> Outcome:
        await stage.up(0, 1)
        return Fault("the device is gone", UNAVAILABLE)

    outcome = await stage.run([stage.spec(0, WAIT), stage.spec(1, WAIT)], fault)
    assert outcome == Fault("the device is gone", UNAVAILABLE)


async def test_a_drain_lets_the_others_finish_what_they_do(stage):
    saving = "import time; print('up', flush=True); time.sleep(0.3); print('saved')"
    specs = [stage.spec(0, saving), stage.spec(1, "raise SystemExit(1)")]
    outcome = await stage.run(specs, drain=30)
    assert isinstance(outcome, Crashed)
    assert outcome.failure.rank == 1
    assert stage.exits[0].status == 0
    await stage.logs.finish()
    assert (stage.root / "rank0.txt").read_bytes().endswith(b"saved\n")


async def test_told_to_stop_in_a_drain_the_ranks_keep_the_rest_of_it(stage):
    # Ranks that write a last checkpoint ignore SIGTERM; a grace of nothing would cost them that.
    saving = (
        "import signal, time; heard = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: heard.append(1)); print('up', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.3); print('saved')"
    )

    async with anyio.create_task_group() as tasks:

        async def tell() -> None:
            while 1 not in stage.exits:
                await anyio.sleep(0.01)
            await stage.up(0)
            stage.interrupts.hear(signal.SIGTERM)

        tasks.start_soon(tell)
        specs = [stage.spec(0, saving), stage.spec(1, "raise SystemExit(1)")]
        outcome = await stage.run(specs, drain=30, grace=0)
    assert isinstance(outcome, Interrupted)
    assert outcome.failure is not None
    assert outcome.failure.rank == 1
    assert stage.exits[0].status == 0


async def test_cancelled_it_leaves_nothing(stage):
    with anyio.move_on_after(10) as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await stage.up(0, 1)
                scope.cancel()

            tasks.start_soon(cancel)
            specs = [stage.spec(0, WAIT), stage.spec(1, STUBBORN)]
            await stage.run(specs, grace=0.2)
    assert scope.cancelled_caught
    assert descendants(os.getpid()) == []
    assert {event.signal for event in stage.exits.values()} == {"SIGTERM", "SIGKILL"}


async def test_every_end_is_told_also_of_those_that_had_to_be_killed(stage):
    async def stop() -> Outcome:
        await stage.up(*range(4))
        return Fault("enough", UNAVAILABLE)

    await stage.run([stage.spec(rank, STUBBORN) for rank in range(4)], stop, grace=0.1)
    assert {rank: event.signal for rank, event in stage.exits.items()} == dict.fromkeys(
        range(4), "SIGKILL"
    )


# A rank that SIGTERM ended, and the SIGTERM to us that may follow.


class ManualClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.sleepers = 0
        self._time = 1000.0
        self._moved = anyio.Event()

    def now(self) -> float:
        return self._time

    async def sleep(self, seconds: float) -> None:
        until = self._time + seconds
        self.sleepers += 1
        try:
            while self._time < until:
                await self._moved.wait()
        finally:
            self.sleepers -= 1

    def advance(self, seconds: float) -> None:
        self._time += seconds
        self._moved.set()
        self._moved = anyio.Event()


ENDED_BY_SIGTERM = "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)"
REPORTS_IT_AS_A_SHELL = "raise SystemExit(143)"


@pytest.fixture
def by_hand(stage: Stage) -> ManualClock:
    """The clock of the stage, moved by hand."""
    clock = ManualClock()
    stage.clock = clock
    stage.interrupts = Interrupts(stage.events.append, stage.logs.reopen, clock)
    return clock


async def ended_by_sigterm(
    stage: Stage, clock: ManualClock, then: Callable[[], object], source: str
) -> Outcome:
    """The outcome when rank 1 dies and ``then`` happens while it is waited for an explanation."""
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:

        async def live() -> None:
            outcomes.append(await stage.run([stage.spec(0, WAIT), stage.spec(1, source)]))

        tasks.start_soon(live)
        with anyio.fail_after(30):
            while not (stage.exits.keys() == {0, 1} and clock.sleepers):
                await anyio.sleep(0.01)
        assert stage.exits[0].signal == "SIGTERM"  # the others are ended, whatever follows
        then()
    return outcomes[0]


@pytest.mark.parametrize("source", [ENDED_BY_SIGTERM, REPORTS_IT_AS_A_SHELL])
async def test_a_rank_that_sigterm_ended_just_before_ours_came_is_no_failure(
    stage, by_hand, source
):
    def stop() -> None:
        by_hand.advance(1.9)
        stage.interrupts.hear(signal.SIGTERM)

    outcome = await ended_by_sigterm(stage, by_hand, stop, source)
    assert outcome == Interrupted(signal.SIGTERM, None)


async def test_a_rank_that_sigterm_ended_is_a_failure_where_none_comes_to_us(stage, by_hand):
    outcome = await ended_by_sigterm(stage, by_hand, lambda: by_hand.advance(2), ENDED_BY_SIGTERM)
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.rank, outcome.failure.status.signal) == (1, signal.SIGTERM)


async def test_another_signal_to_stop_does_not_hide_the_failure(stage, by_hand):
    outcome = await ended_by_sigterm(
        stage, by_hand, lambda: stage.interrupts.hear(signal.SIGINT), ENDED_BY_SIGTERM
    )
    assert isinstance(outcome, Interrupted)
    assert outcome.failure is not None
