"""The loop that holds a job together, with parts that the test brings: probes, a coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.coordination.alone import Alone
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import GenerationEnded
from ascend_supervisor.events.rank_table import RankTableReady
from ascend_supervisor.life import Life, Plan, Start
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    Remedy,
)
from ascend_supervisor.probes import Probe
from ascend_supervisor.restart_policy import Stop
from ascend_supervisor.supervisor import Broken
from ascend_supervisor.tasks.clock import RunningLoop
from ascend_supervisor.workers.preparation import prepare
from tests.plays import Stage, alone, crash, finish, train
from tests.tasks.test_clock import HOUR, Stopped, run
from tests.workers.test_generation import Stage as Generations

FREE = Fault("the cluster has moved this pod", 69, Remedy.FREE)
FINAL = Fault("this device is broken", 69, Remedy.FINAL)
CHARGED = Fault("the ranks make no progress", 124)


class Objects(Probe):
    """Tells ``faults[n]`` in generation n, once ``when`` holds; level-triggered, as all are."""

    def __init__(self, faults: Sequence[Fault | None], when: anyio.Event | None = None) -> None:
        self._faults = faults
        self._when = when
        self.asked = 0

    async def must_end(self, life: Life) -> Fault:
        self.asked += 1
        fault = self._faults[life.generation] if life.generation < len(self._faults) else None
        if fault is None:
            await anyio.sleep_forever()
        elif self._when is not None:
            await self._when.wait()
        assert fault is not None
        return fault


async def test_a_probe_may_end_a_generation_free_of_charge():
    stage = Stage([train, train, finish], alone(0), [Objects([FREE, FREE])])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (0, 3)


async def test_a_probe_may_end_a_generation_at_the_cost_of_a_restart():
    stage = Stage([train, train], alone(1), [Objects([CHARGED, CHARGED])])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (124, 2)
    assert exited.root_cause == CHARGED.reason


async def test_a_probe_may_end_the_job():
    stage = Stage([train], alone(9), [Objects([FINAL])])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (69, 1)
    assert exited.root_cause == FINAL.reason


@pytest.mark.parametrize(
    ("fault", "generations"),
    [pytest.param(FREE, 2, id="free"), pytest.param(FINAL, 1, id="final")],
)
async def test_a_fault_that_comes_while_a_failed_generation_is_ended_decides(fault, generations):
    winding_down = anyio.Event()
    probe = Objects([fault], winding_down)

    async def wind_down(life: Life) -> Outcome:
        """The fault comes now, and is waited for."""
        winding_down.set()
        await anyio.sleep(0.01)
        return Completed()

    stage = Stage([crash, finish], alone(0), [probe], wind_down)
    exited = await stage.run()
    assert exited.generations == generations
    assert isinstance(stage.ended[0].outcome, Crashed)
    assert stage.ended[0].faults == (fault,)


async def test_a_fault_that_comes_during_the_back_off_ends_the_next_generation_at_once():
    broken: list[Fault] = []

    class Watches(Probe):
        async def released(self) -> None:
            if stage.ended:  # after generation 0, before generation 1 is agreed on
                broken.append(FINAL)

        async def must_end(self, life: Life) -> Fault:
            if not broken:
                await anyio.sleep_forever()
            return broken[0]

    stage = Stage([crash, train], alone(1), [Watches()])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (69, 2)


async def test_all_have_released_before_a_table_is_asked_for_and_see_the_plan_before_it_starts():
    seen: list[str] = []

    class Asked(Probe):
        async def released(self) -> None:
            seen.append("released")

        async def ready(self, plan: Plan) -> None:
            assert plan.start.local_ranks == (0, 1)
            seen.append("ready")

    class Noted(Alone):
        async def gather(self) -> Start | Stop:
            seen.append("gather")
            return await super().gather()

    like = alone()
    noted = Noted(like._placed, like._ledger)
    stage = Stage([finish], noted, [Asked()])
    await stage.run()
    assert seen == ["released", "gather", "ready"]
    assert [type(event) for event in stage.events].count(RankTableReady) == 1


async def test_a_start_that_is_withdrawn_while_a_probe_looks_at_it_is_not_started():
    class Withdrawn(Alone):
        """The table is withdrawn twice."""

        asked = 0

        async def still(self, start: Start) -> bool:
            self.asked += 1
            return self.asked > 2

    like = alone()
    servers = Withdrawn(like._placed, like._ledger)
    stage = Stage([finish], servers)
    exited = await stage.run()
    assert exited.exit_code == 0
    assert servers.asked == 3
    assert stage.generations == [0]
    assert len(stage.plans) == 1


async def test_a_probe_that_refuses_a_plan_ends_the_job():
    class Refuses(Probe):
        async def ready(self, plan: Plan) -> None:
            raise Unavailable("port 29500 of rank 0 is taken")

    exited = await Stage([finish], alone(), [Refuses()]).run()
    assert (exited.exit_code, exited.generations) == (69, 0)
    assert exited.root_cause == "port 29500 of rank 0 is taken"


class Hears(Alone):
    """Notes every verdict where the ranks are told to stop, too."""

    def __init__(self, limit: int) -> None:
        like = alone(limit)
        super().__init__(like._placed, like._ledger)
        self.told: list[str] = []
        self.farewells = 0

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        assert uptime == 1.0
        self.told.append(f"{type(verdict).__name__} in generation {start.generation}")

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.farewells += 1


@pytest.mark.parametrize(
    ("act", "name"),
    [(crash, Crashed.__name__), (finish, Completed.__name__), (None, Interrupted.__name__)],
)
async def test_the_coordinator_hears_of_every_verdict_before_the_ranks_do(act, name):
    servers = Hears(0)

    async def stopped(life: Life) -> Outcome:
        stage.stop()
        return await train(life)

    stage = Stage([act or stopped], servers, told=servers.told)
    await stage.run()
    assert servers.told == [f"{name} in generation 0", "ranks of generation 0"]
    assert servers.farewells == 1


async def test_the_coordinator_hears_farewell_where_nothing_was_ever_started():
    class Refuses(Probe):
        async def released(self) -> None:
            raise Unavailable("a device is held")

    servers = Hears(0)
    exited = await Stage([], servers, [Refuses()]).run()
    assert exited.exit_code == 69
    assert servers.farewells == 1


async def test_a_coordinator_may_end_the_job_before_a_generation():
    class Ends(Hears):
        async def gather(self) -> Start | Stop:
            return Stop(69, "another server has given up")

    exited = await Stage([], Ends(0)).run()
    assert (exited.exit_code, exited.reason) == (69, "another server has given up")


async def test_an_error_that_nobody_expected_says_how_many_generations_there_were():
    class Odd(Probe):
        async def ready(self, plan: Plan) -> None:
            if plan.start.generation == 1:
                raise LookupError

    with pytest.raises(Broken) as broken:
        await Stage([crash], alone(3), [Odd()]).run()
    assert (type(broken.value.error), broken.value.generations) == (LookupError, 1)


async def test_told_to_stop_between_generations_there_is_no_other_and_the_failure_stays_the_cause():
    class Stops(Probe):
        async def released(self) -> None:
            if stage.ended:
                stage.stop()
                await anyio.sleep_forever()

    stage = Stage([crash, train], alone(3), [Stops()])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (143, 1)
    assert exited.root_cause is not None
    assert exited.root_cause.startswith("rank 0 failed first")


async def test_what_the_job_has_come_to_stands_when_a_signal_comes_at_its_end():
    async def wind_down(life: Life) -> Outcome:
        stage.stop()
        return Completed()

    stage = Stage([finish], alone(), winding_down=wind_down)
    exited = await stage.run()
    assert exited.exit_code == 0


async def test_a_generation_that_could_not_be_started_is_told_as_such():
    async def act(_: Life) -> Outcome:
        return NotStarted(127, "rank 0: 'x' was not found in PATH")

    stage = Stage([act], alone(3))
    exited = await stage.run()
    assert exited.exit_code == 127
    (ended,) = (event for event in stage.events if isinstance(event, GenerationEnded))
    assert (ended.outcome, ended.next) == ("not_started", "stop")


def test_time_in_which_we_stood_still_does_not_refill_the_budget():
    clock = Stopped()

    async def crash_after_an_hour(life: Life) -> Outcome:
        clock.seconds += HOUR
        return await crash(life)

    async def supervise() -> None:
        exited = await Stage([crash_after_an_hour] * 3, alone(1, HOUR)).run()
        assert exited.generations == 2

    run(RunningLoop(clock), supervise)


async def test_the_last_event_begins_with_the_cause_and_then_says_why_nothing_follows():
    exited = await Stage([crash], alone(0)).run()
    cause = str(exited.root_cause).partition("\n")[0]
    assert exited.reason == f"{cause}; no restarts were asked for (--restarts)"
    assert exited.msg == f"{exited.reason}; ending with exit code {exited.exit_code}"


@pytest.mark.parametrize(
    ("probes", "acts", "refusal"),
    [
        ([Objects([FINAL])], [train], FINAL.reason),
        ([], [crash], None),
        ([], [finish], None),
    ],
    ids=["a fault", "a failed rank", "the end"],
)
async def test_only_what_is_no_failure_of_a_rank_is_a_sentence_for_stderr(probes, acts, refusal):
    stage = Stage(acts, alone(0), probes)
    await stage.run()
    assert stage.exit.refusal == refusal


async def test_the_table_is_told_to_be_ready_when_the_ranks_have_their_copy(tmp_path):
    copy = tmp_path / "table.json"
    copies: list[bytes] = []

    class Watching(Stage):
        async def _prepare(self, plan: Plan) -> Plan:
            return await prepare(plan, copy, Generations(tmp_path).runtime)

        def report(self, event: Event) -> None:
            if isinstance(event, RankTableReady):
                copies.append(copy.read_bytes())
            super().report(event)

    stage = Watching([finish])
    await stage.run()
    assert copies == [standalone_table(2).table.file_for_ranks]
