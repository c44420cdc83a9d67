"""One life of the worker group, with real processes."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.errors import UNAVAILABLE, CommandNotFound
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import ProcessExited, ProcessStarted, RanksEnded
from ascend_supervisor.events.leftovers import GraceEnded, StopWaiting, WaitEnded
from ascend_supervisor.events.supervisor import Defect
from ascend_supervisor.life import Life, Plan, Start
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    ExitStatus,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    Patience,
    Remedy,
    Requester,
    StopSignal,
)
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.output.rank_output import Outputs
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import CgroupMemory, become_subreaper
from ascend_supervisor.processes.ownership import Mark, Ownership
from ascend_supervisor.processes.proc import descendants, is_zombie, stat
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.workers.faults import Ending
from ascend_supervisor.workers.generation import Announce, Company, LastLook, run_generation
from ascend_supervisor.workers.memory_watch import RECENT_SECONDS
from ascend_supervisor.workers.preparation import prepare
from ascend_supervisor.workers.runtime import Runtime
from tests.clocks import LeapingClock

WAIT = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT


async def silent(verdict: Outcome, uptime: float) -> None:
    """Nobody is told."""


@dataclass
class Stage:
    """Where generations run in a test."""

    root: Path
    children: Children = field(default_factory=Children)
    events: list[Event] = field(default_factory=list)
    oom_kills: list[int | None] = field(default_factory=lambda: [None])
    announce: Announce = silent
    looks: list[list[int]] = field(default_factory=list)
    alive_when_looked: list[bool] = field(default_factory=list)
    look: LastLook | None = None
    clock: Clock = field(default_factory=MonotonicClock)
    told: Callable[[Event], None] = lambda _: None
    """Called with each event of the generation itself, before all go on."""

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
        return await self.live(await self.prepare(specs), *endings, drain=drain, grace=grace)

    async def live(
        self, plan: Plan, *endings: Ending, drain: float = 0.0, grace: float = 20.0
    ) -> Outcome:
        company = Company(endings, self.announce, self.look or self._look)
        self.lived = Life(plan)
        with anyio.fail_after(40):
            self.ended = await run_generation(
                self.lived, self.runtime, self.interrupts, Patience(drain, grace), company
            )
        return self.ended.outcome

    async def prepare(self, specs: Sequence[ProcessSpec]) -> Plan:
        found = standalone_table(8)
        plan = Plan(Start(0, found, 0, found.table.entries[0], 0), tuple(specs))
        return await prepare(plan, self.root / "table.json", self.runtime)

    def _memory(self) -> CgroupMemory | None:
        kills = self.oom_kills[-1]
        return None if kills is None else CgroupMemory(kills)

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            children=self.children,
            ownership=Ownership(Mark("OWNER", "nobody's"), frozenset()),
            outputs=Outputs(self.logs, lambda *_: None, self.clock, self.events.append),
            environ=dict(os.environ),
            memory=self._memory,
            clock=self.clock,
            report=self._report,
        )

    def _report(self, event: Event) -> None:
        self.events.append(event)
        self.told(event)

    async def _look(self, life: Life) -> str:
        self.looks.append([process.pid for process in life.processes])
        self.alive_when_looked.append(not self.exits)
        return "all ranks wait in main"

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


async def test_the_others_are_told_to_stop_before_the_first_failure_is_reported(stage):
    ended = []

    def told(event: Event) -> None:
        if isinstance(event, ProcessExited) and event.first_failure:
            other = stage.lived.processes[0].pid
            end = time.monotonic() + 20
            while not is_zombie(other) and time.monotonic() < end:
                time.sleep(0.01)  # the event loop stands still: no signal can come from it now
            ended.append(is_zombie(other))

    stage.told = told
    await stage.run([stage.spec(0, WAIT), stage.spec(1, "raise SystemExit(3)")])
    assert ended == [True]


async def test_a_failure_is_reported_before_a_drain_is_waited_for(stage):
    writes = "print('up', flush=True); import sys; sys.stdin = open('go'); sys.stdin.read()"
    (stage.root / "device0").mkdir()
    os.mkfifo(stage.root / "device0" / "go")

    def told(event: Event) -> None:
        if isinstance(event, ProcessExited) and event.first_failure:
            (stage.root / "device0" / "go").open("w").close()  # only now the other one can end

    stage.told = told
    died = f"while not open({str(stage.root / 'rank0.txt')!r}).read().count('up'): pass\nexit(3)"
    await stage.run([stage.spec(0, writes), stage.spec(1, died)], drain=30)
    assert [event.status for event in stage.exits.values()] == [3, 0]


async def test_those_before_one_that_cannot_be_started_are_reported_too(stage):
    plan = await stage.prepare([stage.spec(0, WAIT), stage.spec(1, "")])
    (stage.root / "device1").rmdir()
    assert isinstance(await stage.live(plan), NotStarted)
    started = [event.rank for event in stage.events if isinstance(event, ProcessStarted)]
    assert started == list(stage.exits) == [0]


async def test_of_a_line_that_was_overwritten_the_last_text_is_told(stage):
    wrote = r"as on Windows\r\n10 %\r50 %\r\n\r\n90 %\r"
    outcome = await stage.run(
        [stage.spec(0, f"import sys; sys.exit(print('{wrote}', end='') or 3)")]
    )
    assert isinstance(outcome, Crashed)
    assert outcome.failure.last_lines == ("as on Windows", "50 %", "", "90 %")


async def test_a_signal_for_ranks_goes_to_the_workers_of_a_launcher(stage):
    worker = (
        "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: exit(0))\n"
        "print('up', flush=True)\nwhile True: time.sleep(0.05)"
    )
    launcher = (
        "import subprocess, sys\n"
        f"words = [sys.executable, '-c', {worker!r}]\n"
        "sys.exit(subprocess.Popen(words, start_new_session=True).wait())"
    )

    async def signal_it() -> Fault:
        await stage.up(0)
        stage.interrupts.hear(signal.SIGUSR1)
        await anyio.sleep_forever()
        raise AssertionError

    assert await stage.run([stage.spec(0, launcher, workers=1)], signal_it) == Completed()


async def test_what_is_not_significant_is_not_waited_for(stage):
    server = stage.spec(1, WAIT, significant=False)
    assert await stage.run([stage.spec(0, ""), server]) == Completed()


async def test_what_outlasts_the_ranks_is_waited_for(stage):
    over = stage.root / "over"
    source = f"import os, time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.01)"
    server = stage.spec(1, source, significant=False, outlasts_ranks=True, title="the server")
    awaited = []

    def told(event: Event) -> None:
        if isinstance(event, RanksEnded):
            awaited.append(event.awaited)
            over.touch()

    stage.told = told
    assert await stage.run([stage.spec(0, ""), server]) == Completed()
    assert awaited == ["the server"]


async def test_how_it_ends_after_the_ranks_makes_no_difference_to_them(stage):
    source = "import time; time.sleep(0.5); raise SystemExit(4)"
    server = stage.spec(1, source, significant=False, outlasts_ranks=True)
    assert await stage.run([stage.spec(0, ""), server]) == Completed()
    assert not stage.exits[1].first_failure


async def test_what_outlasts_the_ranks_may_fail_before_them(stage):
    server = stage.spec(1, "raise SystemExit(4)", significant=False, outlasts_ranks=True)
    outcome = await stage.run([stage.spec(0, WAIT), server])
    assert isinstance(outcome, Crashed)
    assert outcome.failure.rank == 1


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


@pytest.mark.parametrize(
    ("before", "after", "said"), [(3, 3, None), (3, 5, (3, 5)), (None, 1, None), (3, None, None)]
)
async def test_an_oom_kill_beside_the_rank_that_failed_is_told(stage, before, after, said):
    """A child of the rank was killed, and the rank then exits by itself."""
    stage.oom_kills.append(before)

    async def then() -> Outcome:
        await stage.up(0)
        stage.oom_kills.append(after)
        started = next(e for e in stage.events if isinstance(e, ProcessStarted))
        os.kill(started.child_pid, signal.SIGINT)
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await stage.run([stage.spec(0, WAIT)], then)
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.oom_killed, outcome.failure.oom_kills) == (False, said)


@pytest.mark.long
@pytest.mark.parametrize(("talks", "said"), [(True, False), (False, None)])
async def test_a_sigkill_long_after_an_oom_kill_of_another_process_is_not_told_as_one(
    stage, talks, said
):
    """While a rank is silent nothing is looked at: then it is not known whose kill was counted."""
    stage.oom_kills.append(3)
    source = "import time\nwhile True: print('up', flush=True); time.sleep(0.1)" if talks else WAIT

    async def then() -> Outcome:
        await stage.up(0)
        await anyio.sleep(1.5)  # it was looked once after these words
        stage.oom_kills.append(4)
        await anyio.sleep(RECENT_SECONDS + 1)
        started = next(e for e in stage.events if isinstance(e, ProcessStarted))
        os.kill(started.child_pid, signal.SIGKILL)
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await stage.run([stage.spec(0, source)], then)
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.oom_killed, outcome.failure.oom_kills) == (said, (3, 4))


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


async def test_status_2_after_a_dump_in_the_drain_is_a_consequence(stage):
    """A rank that has lost another may save a checkpoint, and then ends with 2 (MindIO TTP)."""
    dump = "import sys, time; print('up', flush=True); time.sleep(0.3); print('dump'); sys.exit(2)"
    specs = [stage.spec(0, dump), stage.spec(1, "raise SystemExit(7)")]
    outcome = await stage.run(specs, drain=30)
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.rank, outcome.failure.status) == (1, ExitStatus(7))
    told = {rank: (exited.status, exited.first_failure) for rank, exited in stage.exits.items()}
    assert told == {0: (2, False), 1: (7, True)}


class LeapingBesideTheGrace(LeapingClock):
    """Its sleeps take no time of the limits, which are those of the event loop."""

    def now(self) -> float:
        return 0.0

    def elapsed(self) -> float:
        return self.time


async def test_processes_that_do_not_end_are_told_at_growing_intervals(stage):
    stage.clock = LeapingBesideTheGrace()
    log = stage.root / "rank0.txt"
    fails = (
        f"import pathlib, time; log = pathlib.Path({str(log)!r})\n"
        "while b'\\nup\\n' not in log.read_bytes(): time.sleep(0.01)\n"
        "raise SystemExit(1)"
    )
    await stage.run([stage.spec(0, STUBBORN), stage.spec(1, fails)], grace=0.5)
    told = [event for event in stage.events if isinstance(event, (StopWaiting, WaitEnded))]
    assert [event.waited_seconds for event in told[:6]] == [5, 15, 35, 75, 135, 195]
    assert {type(event) for event in told[:-1]} == {StopWaiting}
    assert isinstance(told[-1], WaitEnded)


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
    with anyio.move_on_after(60) as scope:
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
    (killed,) = [event for event in stage.events if isinstance(event, GraceEnded)]
    assert [one.partition(": ")[0] for one in killed.remaining] == [
        f"rank {rank}" for rank in range(4)
    ]
    assert killed.grace_seconds >= 0.1
    assert killed.msg.startswith(f"killed after {killed.grace_seconds:.1f} s of grace, ")
    assert killed.msg.endswith("; --grace gives more time")
    assert {rank: event.signal for rank, event in stage.exits.items()} == dict.fromkeys(
        range(4), "SIGKILL"
    )


# A rank that SIGTERM ended, and the SIGTERM to us that may follow.


class ManualClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self._time = 1000.0
        self._moved = anyio.Event()

    def now(self) -> float:
        return self._time

    elapsed = now

    async def sleep(self, seconds: float) -> None:
        until = self._time + seconds
        while self._time < until:
            await self._moved.wait()

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


async def ended_by_sigterm(stage: Stage, then: Callable[[], object], source: str) -> Outcome:
    """The outcome when rank 1 dies and ``then`` happens, from the end of the group on."""
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:

        async def live() -> None:
            outcomes.append(await stage.run([stage.spec(0, WAIT), stage.spec(1, source)]))

        tasks.start_soon(live)
        with anyio.fail_after(30):
            while stage.exits.keys() != {0, 1}:
                await anyio.sleep(0.01)
        assert stage.exits[0].signal == "SIGTERM"  # the others are ended, whatever follows
        while not outcomes:
            then()
            await anyio.sleep(0.01)
    return outcomes[0]


@pytest.mark.parametrize("source", [ENDED_BY_SIGTERM, REPORTS_IT_AS_A_SHELL])
async def test_a_rank_that_sigterm_ended_just_before_ours_came_is_no_failure(
    stage, by_hand, source
):
    began = by_hand.now()

    def stop() -> None:
        by_hand.advance(1.9)
        stage.interrupts.hear(signal.SIGTERM)

    outcome = await ended_by_sigterm(stage, stop, source)
    assert outcome == Interrupted(StopSignal(signal.SIGTERM, began + 1.9))


async def told_to_stop(stage: Stage) -> Outcome:
    """What is waited for beside rank 0: we are told to stop as soon as that is up."""
    await stage.up(0)
    stage.interrupts.hear(signal.SIGTERM)
    await anyio.sleep_forever()
    raise AssertionError


async def test_a_rank_that_sigterm_ended_after_ours_came_is_not_told_as_a_failure(stage):
    async def hook(verdict: Outcome, uptime: float) -> None:
        os.kill(stage.lived.processes[0].pid, signal.SIGTERM)  # before we have told the ranks
        while 0 not in stage.exits:
            await anyio.sleep(0.01)

    stage.announce = hook
    outcome = await stage.run([stage.spec(0, WAIT)], partial(told_to_stop, stage))
    assert isinstance(outcome, Interrupted)
    assert outcome.failure is None
    assert stage.exits[0].signal == "SIGTERM"
    assert not stage.exits[0].first_failure


class SaysWhy:
    """A framework that ends its own processes, and says so."""

    def reason(self, lines: Sequence[str], heard: Sequence[str]) -> str | None:
        return next((line for line in lines if line.startswith("lost")), None)


async def test_a_rank_that_its_framework_ended_is_told_as_the_failure_that_it_is(stage):
    async def hook(verdict: Outcome, uptime: float) -> None:
        while 0 not in stage.exits:
            await anyio.sleep(0.01)

    stage.announce = hook
    source = (
        "import os, signal, sys\nprint('up', flush=True)\nsys.stdin = open('go')\n"
        "print('lost its cluster', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"
    )
    spec = stage.spec(0, source, explanation=SaysWhy())
    Path(spec.cwd).mkdir()
    os.mkfifo(Path(spec.cwd, "go"))

    async def stop() -> Fault:
        await stage.up(0)
        stage.interrupts.hear(signal.SIGTERM)
        os.close(os.open(Path(spec.cwd, "go"), os.O_WRONLY))
        await anyio.sleep_forever()
        raise AssertionError

    outcome = await stage.run([spec], stop)
    assert isinstance(outcome, Interrupted)
    assert outcome.failure is not None
    assert outcome.failure.reason == "lost its cluster"
    assert stage.exits[0].first_failure


async def test_a_rank_that_sigterm_ended_is_a_failure_where_none_comes_to_us(stage, by_hand):
    outcome = await ended_by_sigterm(stage, lambda: by_hand.advance(2), ENDED_BY_SIGTERM)
    assert isinstance(outcome, Crashed)
    assert (outcome.failure.rank, outcome.failure.status.signal) == (1, signal.SIGTERM)


async def test_another_signal_to_stop_does_not_hide_the_failure(stage, by_hand):
    outcome = await ended_by_sigterm(
        stage, lambda: stage.interrupts.hear(signal.SIGINT), ENDED_BY_SIGTERM
    )
    assert isinstance(outcome, Interrupted)
    assert outcome.failure is not None


# What goes along with a generation.


async def up_then(stage: Stage, fault: Fault, *ranks: int) -> Fault:
    await stage.up(*ranks)
    return fault


SOON = Patience(drain=0.0, grace=0.1)


def runs(pid: int) -> bool:
    found = stat(pid)
    return found is not None and not found.is_dead


async def test_others_hear_of_the_end_before_the_first_process_is_told(stage):
    told: list[list[int]] = []

    async def announce(verdict: Outcome, uptime: float) -> None:
        assert isinstance(verdict, Crashed)
        assert uptime > 0
        told.append([one.spec.rank for one in stage.lived.processes if runs(one.pid)])

    stage.announce = announce
    await stage.run([stage.spec(0, WAIT), stage.spec(1, "raise SystemExit(3)")])
    assert told == [[0]]


async def test_others_hear_of_a_signal_to_us_before_the_ranks_do(stage):
    verdicts: list[Outcome] = []
    exits_when_announced: list[int] = []

    async def announce(verdict: Outcome, uptime: float) -> None:
        verdicts.append(verdict)
        exits_when_announced.append(len(stage.exits))

    stage.announce = announce
    assert verdicts == [await stage.run([stage.spec(0, WAIT)], partial(told_to_stop, stage))]
    assert isinstance(verdicts[0], Interrupted)
    assert exits_when_announced == [0]


async def test_an_announcement_that_hangs_or_fails_keeps_no_rank_alive(stage):
    async def hang(verdict: Outcome, uptime: float) -> None:
        await anyio.sleep_forever()

    async def fail(verdict: Outcome, uptime: float) -> None:
        raise LookupError("nobody answers")

    for announce in (hang, fail):
        stage.announce = announce
        outcome = await stage.run([stage.spec(0, "raise SystemExit(3)")])
        assert isinstance(outcome, Crashed)
    (defect,) = (event for event in stage.events if isinstance(event, Defect))
    assert "nobody answers" in defect.message


async def test_a_last_look_sees_the_ranks_before_they_are_told_to_stop(stage):
    fault = Fault("no progress", UNAVAILABLE, last_look=True)
    await stage.run(
        [stage.spec(rank, WAIT) for rank in range(2)], partial(up_then, stage, fault, 0, 1)
    )
    ((first, second),) = stage.looks
    assert {first, second} == {event.child_pid for event in stage.exits.values()}
    assert stage.alive_when_looked == [True]


async def test_without_being_asked_for_there_is_no_last_look(stage):
    await stage.run([stage.spec(0, WAIT)], partial(up_then, stage, Fault("busy", UNAVAILABLE), 0))
    assert stage.looks == []


async def test_a_fault_that_comes_during_the_drain_is_not_lost_and_may_cut_it_short(stage):
    fault = Fault("the chip is reset", UNAVAILABLE, Remedy.FREE, SOON)

    async def after_the_failure() -> Fault:
        await stage.up(0)
        while 1 not in stage.exits:
            await anyio.sleep(0.01)
        return fault

    specs = [stage.spec(0, STUBBORN), stage.spec(1, "raise SystemExit(1)")]
    outcome = await stage.run(specs, after_the_failure, drain=600, grace=600)
    assert isinstance(outcome, Crashed)
    assert stage.ended.faults == (fault,)
    assert stage.ended.decisive == fault
    assert stage.exits[0].signal == "SIGKILL"


async def test_a_fault_that_comes_during_the_grace_may_cut_it_short(stage):
    first = Fault("another server stops", UNAVAILABLE)
    second = Fault("the chip is reset", UNAVAILABLE, Remedy.FREE, SOON)
    told = (
        "import os, signal, time\n"  # no print: it fails where a signal interrupts another one
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'told\\n'))\n"
        "os.write(1, b'up\\n')\nwhile True: time.sleep(0.1)"
    )

    async def in_the_grace() -> Fault:
        while b"\ntold\n" not in (stage.root / "rank0.txt").read_bytes():
            await anyio.sleep(0.01)
        return second

    outcome = await stage.run(
        [stage.spec(0, told)], partial(up_then, stage, first, 0), in_the_grace, grace=600
    )
    assert outcome == first
    assert stage.ended.faults == (second,)
    assert stage.exits[0].signal == "SIGKILL"


TELLS = (
    "import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: os.write(1, b'told\\n'))\n"
    "os.write(1, b'up\\n')\nwhile not os.path.exists('saved'): time.sleep(0.05)"
)
"""A rank that says when it gets SIGTERM, and ends when a file is there."""
OPERATOR = Requester(812, 0)


async def until_told(stage: Stage) -> None:
    while b"\ntold\n" not in (stage.root / "rank0.txt").read_bytes():
        await anyio.sleep(0.01)


async def test_an_operator_may_cut_a_drain_and_the_grace_short(stage):
    async def stop() -> Fault:
        await stage.up(0)
        while 1 not in stage.exits:
            await anyio.sleep(0.01)
        stage.interrupts.ask_to_stop(OPERATOR, 0.2)
        await anyio.sleep_forever()
        raise AssertionError

    specs = [stage.spec(0, STUBBORN), stage.spec(1, "raise SystemExit(1)")]
    outcome = await stage.run(specs, stop, drain=600, grace=600)
    assert isinstance(outcome, Interrupted)
    assert outcome.stop.by == OPERATOR
    (killed,) = [event for event in stage.events if isinstance(event, GraceEnded)]
    assert killed.option is None
    assert stage.exits[0].signal == "SIGKILL"


async def test_an_operator_may_cut_a_grace_short_that_has_begun(stage):
    async def stop() -> Fault:
        await until_told(stage)
        stage.interrupts.ask_to_stop(OPERATOR, 0.1)
        await anyio.sleep_forever()
        raise AssertionError

    busy = Fault("busy", UNAVAILABLE)
    outcome = await stage.run([stage.spec(0, TELLS)], partial(up_then, stage, busy, 0), stop)
    assert isinstance(outcome, Interrupted)
    assert stage.exits[0].signal == "SIGKILL"


@pytest.mark.long
async def test_an_operator_may_prolong_a_grace_that_has_begun(stage):
    usual = 3.0

    async def stop() -> Fault:
        await until_told(stage)
        stage.interrupts.ask_to_stop(OPERATOR, 600)
        await anyio.sleep(usual + 0.5)
        (stage.root / "device0" / "saved").touch()
        await anyio.sleep_forever()
        raise AssertionError

    busy = partial(up_then, stage, Fault("busy", UNAVAILABLE), 0)
    await stage.run([stage.spec(0, TELLS)], busy, stop, grace=usual)
    assert stage.exits[0].status == 0


async def test_a_patience_that_is_longer_prolongs_nothing(stage):
    first = Fault("the chip is reset", UNAVAILABLE, patience=SOON)
    second = Fault("a peer stops", UNAVAILABLE, patience=Patience(drain=600, grace=600))
    outcome = await stage.run(
        [stage.spec(0, STUBBORN)],
        partial(up_then, stage, first, 0),
        partial(up_then, stage, second, 0),
        grace=600,
    )
    assert outcome == first
    assert stage.exits[0].signal == "SIGKILL"


async def test_a_fault_that_comes_between_two_starts_starts_no_more(stage):
    fault = Fault("the table has changed", UNAVAILABLE, Remedy.FREE)

    async def when_one_runs() -> Fault:
        while not any(isinstance(event, ProcessStarted) for event in stage.events):
            await anyio.lowlevel.checkpoint()
        return fault

    outcome = await stage.run([stage.spec(rank, WAIT) for rank in range(8)], when_one_runs)
    assert outcome == fault
    assert 1 <= len(stage.exits) < 8


async def test_a_source_that_fails_ends_the_generation_first(stage):
    async def fail() -> Fault:
        await stage.up(0)
        raise LookupError("a defect")

    with pytest.raises(LookupError, match="a defect"):
        await stage.run([stage.spec(0, WAIT)], fail)
    assert set(stage.exits) == {0}


async def test_what_the_machine_lacked_when_it_was_made_ready_is_a_fault(stage):
    plan = replace(await stage.prepare([stage.spec(0, WAIT)]), lacking="no room")
    outcome = await stage.live(plan)
    assert outcome == Fault("no room", UNAVAILABLE, is_of_server=True)
    assert stage.exits == {}


async def test_it_is_known_when_and_how_much_a_process_has_written(stage):
    source = "import time; print('up', flush=True); time.sleep(0.05); print('x' * 1000)"
    plan = await stage.prepare([stage.spec(0, source), stage.spec(1, "")])
    await stage.live(plan)
    speaks, silent = (process.activity for process in stage.lived.processes)
    assert (speaks.bytes, silent.bytes) == (1004, 0)
    assert speaks.spoke_at > silent.spoke_at


async def test_it_is_known_how_much_a_worker_has_written_to_a_log_of_its_own(stage):
    log = stage.root / "worker_4.log"
    source = f"with open({str(log)!r}, 'w') as log: log.write('x' * 1000)\n" + WAIT

    async def when_it_is_known() -> Fault:
        await stage.up(0)
        while not stage.lived.processes[0].activity_of_workers[0].bytes:
            await anyio.sleep(0.01)
        return Fault("enough", UNAVAILABLE)

    launcher = stage.spec(0, source, worker_logs=(WorkerLog(log, 4, 0),))
    assert await stage.run([launcher], when_it_is_known) == Fault("enough", UNAVAILABLE)
    (process,) = stage.lived.processes
    assert process.activity_of_workers[0].bytes == 1000
    assert process.activity.bytes == len("up\n")


async def test_a_process_inherits_the_descriptors_of_its_spec_and_no_others(stage):
    read_end, write_end = os.pipe()
    other = os.dup(write_end)
    source = (
        f"import os; os.write({write_end}, b'from the rank')\n"
        f"try: os.fstat({other})\nexcept OSError: raise SystemExit(0)\nraise SystemExit(1)"
    )
    outcome = await stage.run([stage.spec(0, source, descriptors=(write_end,))])
    assert os.read(read_end, 100) == b"from the rank"
    for descriptor in (read_end, write_end, other):
        os.close(descriptor)
    assert outcome == Completed()


async def test_a_fault_that_is_told_before_the_drain_begins_shortens_it_too(stage):
    fault = Fault("the chip is reset", UNAVAILABLE, Remedy.FREE, SOON)
    told = anyio.Event()

    async def announce(verdict: Outcome, uptime: float) -> None:
        await told.wait()

    async def after_the_failure() -> Fault:
        await stage.up(0)
        while 1 not in stage.exits:
            await anyio.sleep(0.01)
        told.set()
        return fault

    stage.announce = announce
    specs = [stage.spec(0, STUBBORN), stage.spec(1, "raise SystemExit(1)")]
    outcome = await stage.run(specs, after_the_failure, drain=600, grace=600)
    assert isinstance(outcome, Crashed)
    assert stage.exits[0].signal == "SIGKILL"


async def test_what_serves_the_ranks_may_fail_when_they_have_all_ended_with_0(stage):
    """Also where we hear of both ends at once."""

    async def stand_still() -> Fault:
        await stage.up(0)
        while b"\nup\n" not in (stage.root / "rank1.txt").read_bytes():
            await anyio.sleep(0.01)
        (stage.root / "go").touch()
        time.sleep(1)  # noqa: ASYNC251  (that is the point)
        await anyio.sleep_forever()
        raise AssertionError

    waits = (
        "import os, sys, time; print('up', flush=True)\n"
        f"while not os.path.exists({str(stage.root / 'go')!r}): time.sleep(0.01)\n"
    )
    server = stage.spec(1, waits + "time.sleep(0.4); sys.exit(4)", significant=False)
    outcome = await stage.run([stage.spec(0, waits), server], stand_still)
    assert outcome == Completed()


async def test_a_rank_whose_npu_waits_is_killed_before_the_others(stage):
    """The others save as long as their grace lasts."""

    async def saved_after_the_kill() -> Fault:
        while 0 not in stage.exits:
            await anyio.sleep(0.01)
        (stage.root / "device1" / "saved").touch()
        await anyio.sleep_forever()
        raise AssertionError

    waits = Patience(0.0, 600.0, hurried=frozenset({0}), hurried_grace=0.2)
    reset = Fault("the NPU of rank 0 must be reset", UNAVAILABLE, Remedy.FREE, waits)
    await stage.run(
        [stage.spec(0, STUBBORN), stage.spec(1, TELLS)],
        partial(up_then, stage, reset, 0, 1),
        saved_after_the_kill,
    )
    assert stage.exits[0].signal == "SIGKILL"
    assert stage.exits[1].status == 0
