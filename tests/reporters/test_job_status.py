"""Where we stand: what each history of events makes of the state file."""

from __future__ import annotations

import json
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.events import Event
from ascend_supervisor.events.cluster import ClusterIncident
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
    StandbysReady,
)
from ascend_supervisor.events.leftovers import PortWaiting
from ascend_supervisor.events.output import OutputDropped
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.peers import PeersUnreachable, PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import (
    ControlRequested,
    ExitLingering,
    SignalReceived,
    SupervisorExited,
    SupervisorStarted,
)
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.job_status import SoFar, after, status_file
from ascend_supervisor.reporters.status_document import (
    MOST_GENERATIONS,
    PastGeneration,
    RankStatus,
    StandbyStatus,
    Status,
    as_json,
)

INITIAL = Status("job-7", "pod-0", 4711, 123456, "0.1.0")

STARTED = SupervisorStarted("0.1.0", ("python",), "ranktable", 1, ())
WAITING = RankTableWaiting("/t", "status is 'initializing'", 3.0)
READY = RankTableReady("/t", "1.0", 16, 2, "pod-0", (0, 1), "0" * 64, ())
STOPPING = SignalReceived(
    "SIGTERM", "stopping, with grace; a later SIGINT, or SIGQUIT, kills what is left"
)
RESTART = RestartScheduled(1.5, 0)


def begun(generation: int, left: int = 1) -> list[Event]:
    pids = (100 + 10 * generation, 101 + 10 * generation)
    processes = [
        ProcessStarted(rank, rank, generation, pid, f"/log/{rank}") for rank, pid in enumerate(pids)
    ]
    return [GenerationStarted(generation, left), *processes]


def died(rank: int, generation: int, status: int | None, signal: str | None = None) -> Event:
    pid = 100 + 10 * generation + rank
    return ProcessExited(
        rank, rank, generation, pid, status, signal, 1.0, first_failure=True, oom_killed=False
    )


def ended(generation: int, following: Any) -> Event:
    return GenerationEnded(generation, "crashed", 0, 1.0, following)


def status_of(*events: Event) -> Status:
    return reduce(after, events, INITIAL)


def ranks(generation: int, *ends: tuple[int | None, str | None]) -> tuple[RankStatus, ...]:
    return tuple(
        RankStatus(rank, rank, 100 + 10 * generation + rank, f"/log/{rank}", *end)
        for rank, end in enumerate(ends)
    )


RUNS = (None, None)


def test_it_starts_with_nothing_but_who_we_are():
    assert status_of() == status_of(STARTED) == INITIAL
    assert INITIAL.phase == "starting"


def test_it_says_what_is_waited_for():
    assert status_of(WAITING) == replace(
        INITIAL, phase="waiting", why="waiting for the rank table /t: status is 'initializing'"
    )


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (
            PeersWaiting((1,), (1,), ("pod job-1",), "", 3.0),
            "waiting for server 1 (pod job-1), not ready for the next generation; no supervisor",
        ),
        (EtcdWaiting("waiting for the etcd of the job", 3.0, 60.0), "waiting for the etcd of"),
        (PortWaiting(29500, 0.0, 75.0), "waiting for port 29500, where rank 0 is to listen"),
        (
            PeersUnreachable("no etcd answers", ranks_run=False),
            "no etcd answers; no rank starts until it answers",
        ),
    ],
)
@pytest.mark.parametrize("before", [[], [READY, *begun(0), ended(0, "restart"), RESTART]])
def test_whatever_is_waited_for_is_told(event, why, before):
    status = status_of(*before, event)
    assert status.phase == "waiting"
    assert status.why.startswith(why)


def test_a_server_that_stops_and_waits_for_others_still_stops():
    status = status_of(READY, *begun(0), STOPPING, EtcdWaiting("waiting for server 1", 3.0, 60.0))
    assert (status.phase, status.why) == ("stopping", "waiting for server 1")


def test_ranks_run_on_while_no_etcd_answers():
    unreachable = PeersUnreachable("no etcd answers", ranks_run=True)
    assert status_of(READY, *begun(0), unreachable) == status_of(READY, *begun(0))


def test_while_a_generation_ends_its_failure_is_told():
    failed = died(1, 0, 7)
    assert status_of(READY, *begun(0), failed).why == failed.msg
    assert status_of(READY, *begun(0), STOPPING, failed).why == STOPPING.msg


def test_it_says_who_runs():
    assert status_of(STARTED, WAITING, READY, *begun(0)) == replace(
        INITIAL,
        phase="running",
        why="generation 0 starts; restarts left: 1",
        generation=0,
        restarts_left=1,
        world_size=16,
        ranks=ranks(0, RUNS, RUNS),
    )


def test_a_rank_that_has_ended_says_how():
    status = status_of(READY, *begun(0), died(1, 0, 7), died(0, 0, None, "SIGTERM"))
    assert status.ranks == ranks(0, (None, "SIGTERM"), (7, None))
    assert status.phase == "running"


def test_between_two_generations_it_backs_off():
    status = status_of(READY, *begun(0), died(0, 0, 7), ended(0, "restart"), RESTART)
    assert (status.phase, status.why, status.restarts_left) == ("backing off", RESTART.msg, 0)
    assert status.ranks == ranks(0, (7, None), RUNS)


def test_a_new_generation_forgets_the_ranks_of_the_last():
    first = [READY, *begun(0), died(0, 0, 7), ended(0, "restart"), RESTART]
    assert status_of(*first, READY, *begun(1, 0)) == replace(
        INITIAL,
        phase="running",
        why="generation 1 starts; restarts left: 0",
        generation=1,
        restarts_left=0,
        world_size=16,
        ranks=ranks(1, RUNS, RUNS),
    )


def test_a_failure_is_told_to_the_end():
    cause = "rank 0 failed first"
    exited = SupervisorExited(7, "no restarts were asked for (--restarts)", 1, cause)
    status = status_of(READY, *begun(0), died(0, 0, 7), ended(0, "stop"), exited)
    assert status == replace(
        INITIAL,
        phase="ended",
        why=exited.msg,
        generation=0,
        restarts_left=1,
        world_size=16,
        ranks=ranks(0, (7, None), RUNS),
        exit_code=7,
        root_cause=cause,
    )


def test_before_an_end_that_waits_the_cause_is_told():
    lingering = ExitLingering(30.0, 7, "no restarts", "rank 0 failed first")
    status = status_of(READY, *begun(0), died(0, 0, 7), ended(0, "stop"), lingering)
    assert (status.phase, status.why) == ("stopping", lingering.msg)
    assert (status.exit_code, status.root_cause) == (None, "rank 0 failed first")


@pytest.mark.parametrize("late", [STOPPING, WAITING, RESTART, *begun(1), ended(1, "stop")])
def test_the_end_is_the_end_whatever_is_told_after_it(late):
    history = [READY, *begun(0), died(0, 0, 7), ended(0, "stop"), SupervisorExited(7, "", 1, None)]
    assert status_of(*history, late) == status_of(*history)


@pytest.mark.parametrize("stopping", [STOPPING, ControlRequested("stop", 0, 812, "stopping")])
@pytest.mark.parametrize("before", [[], [WAITING], [READY, *begun(0)], [READY, *begun(0), RESTART]])
def test_a_signal_to_stop_is_heard_in_every_phase(before, stopping):
    status = status_of(*before, stopping)
    assert (status.phase, status.why) == ("stopping", stopping.msg)


@pytest.mark.parametrize(
    "event",
    [
        SignalReceived("SIGUSR1", "forwarded to the ranks"),
        SignalReceived("SIGHUP", "the log files are opened anew"),
        OutputDropped(0, 5, "slow"),
        ended(0, "restart"),
        ControlRequested("restart", 0, 812, "generation 0 is ended, and the next one starts"),
        ControlRequested("dump", 0, 812, "the stacks of generation 0 are taken"),
    ],
)
def test_what_does_not_change_where_we_stand_changes_nothing(event):
    running = status_of(READY, *begun(0))
    assert after(running, event) == running


HISTORY = [
    *[STARTED, WAITING, WAITING, READY, *begun(0), died(0, 0, None, "SIGKILL")],
    *[OutputDropped(0, 5, "slow"), ended(0, "restart"), RESTART, READY, *begun(1, 0)],
    *[STOPPING, died(0, 1, 0), died(1, 1, 0), ended(1, "stop")],
    SupervisorExited(143, "told to stop by SIGTERM", 2, None),
]


def put_by(*events: Event) -> list[Status]:
    states: list[Status] = []
    report = status_file(states.append, SoFar(INITIAL))
    for event in events:
        report(event)
    return states


def test_the_beginning_and_every_change_are_put_and_no_other_event():
    states = [status_of(*HISTORY[: n + 1]) for n in range(len(HISTORY))]
    changes = [new for old, new in pairwise([INITIAL, *states]) if new != old]
    assert len(changes) < len(HISTORY)
    assert put_by(*HISTORY) == [INITIAL, *changes]


def test_whatever_is_put_has_the_progress_up_to_then():
    known = [
        ProgressStatus(
            account={}, percent_training=None, best_step=step, best_epoch=0, generations=1, hangs=0
        )
        for step in range(5)
    ]
    states: list[Status] = []
    report = status_file(states.append, SoFar(INITIAL, progress=iter(known).__next__))
    for event in (*begun(0), OutputDropped(0, 5, "slow"), died(0, 0, None, "SIGKILL")):
        report(event)
    assert [state.progress for state in states[1:]] == [known[at] for at in (0, 1, 2, 4)]


def test_at_the_end_the_account_is_that_of_the_last_sentence():
    later = ProgressStatus(
        account={"training": 1.0, "stopping": 9.0},
        percent_training=10.0,
        best_step=1,
        best_epoch=0,
        generations=1,
        hangs=0,
    )
    end = SupervisorExited(0, "", 1, None, account={"training": 1.0}, percent_training=100.0)
    progress = after(status_of(*begun(0)), end, progress=later).progress
    assert progress is not None
    assert (progress.account, progress.percent_training) == ({"training": 1.0}, 100.0)


@pytest.mark.parametrize("length", range(len(HISTORY) + 1))
def test_the_file_gives_back_the_status(length):
    status = status_of(*HISTORY[:length])
    read = json.loads(as_json(status))
    read["ranks"] = tuple(RankStatus(**rank) for rank in read["ranks"])
    read["generations"] = tuple(PastGeneration(**one) for one in read["generations"])
    read["no_progress"] = tuple(read["no_progress"])
    assert Status(**read) == status


def test_the_file_is_a_text_file():
    assert as_json(INITIAL).endswith(b"}\n")


def test_a_path_that_is_not_utf_8_spoils_no_file():
    _, status = put_by(ProcessStarted(0, 0, 0, 100, "/log/caf\udce9"))
    (rank,) = json.loads(as_json(status))["ranks"]
    assert (rank["pid"], rank["log"]) == (100, r"/log/caf\udce9")


def test_from_an_incident_on_the_cluster_is_waited_for():
    running = after(INITIAL, GenerationStarted(0, 0))
    told = after(running, ClusterIncident("table_changed", "the rank table has changed"))
    assert told.phase == "waiting"
    assert told.why == "the cluster recovers: the rank table has changed"


def with_times(*events: Event) -> Status:
    status = INITIAL
    for second, event in enumerate(events):
        status = after(status, event, f"at {second}")
    return status


def test_standbys_are_there_until_the_next_generation_starts():
    states: list[Status] = []
    report = status_file(states.append, SoFar(INITIAL))
    for event in (GenerationStarted(0, 1), StandbysReady(8, 62.0, 6_518_300_672)):
        report(event)
    assert states[-1].standbys == StandbyStatus(8, 6_518_300_672)
    report(GenerationStarted(1, 0))
    assert states[-1].standbys is None


def test_the_cause_of_the_latest_failure_stays_while_ranks_run_again():
    """Also where another server has told it, and this restart says nothing of it."""
    known = diagnosis_by(CAUSES["EJ0001"], 3)
    failed = replace(ended(0, "restart"), diagnosis=known)
    running = (GenerationStarted(0, 1), failed, RESTART, GenerationStarted(1, 0))
    assert with_times(*running).diagnosis == known
    assert with_times(*running, ended(1, "restart")).diagnosis is None


def test_generations_are_listed_with_their_times_and_causes():
    cause = "rank 0 failed first\nits last lines"
    again = RestartScheduled(1.5, 0, "rank 1 failed first\nits last lines", free=True)
    end = SupervisorExited(7, "the budget is used up", 2, cause)
    first = (GenerationStarted(0, 1), ended(0, "restart"), again)
    assert with_times(*first, GenerationStarted(1, 0), ended(1, "stop"), end).generations == (
        PastGeneration(0, "at 0", "at 1", "crashed", "rank 1 failed first", free=True),
        PastGeneration(1, "at 3", "at 4", "crashed", "rank 0 failed first"),
    )


def test_the_latest_generation_has_no_end_yet():
    assert with_times(GenerationStarted(0, 1)).generations == (PastGeneration(0, "at 0"),)


def test_a_success_has_no_cause_and_a_defect_an_end():
    success = GenerationEnded(0, "completed", None, 1.0, "stop")
    end = SupervisorExited(0, "", 1, None)
    (one,) = with_times(GenerationStarted(0, 1), success, end).generations
    assert (one.ended_at, one.outcome, one.cause) == ("at 1", "completed", None)
    defect = SupervisorExited(70, "a defect", 1, "a defect")
    (one,) = with_times(GenerationStarted(0, 1), defect).generations
    assert (one.ended_at, one.outcome, one.cause) == ("at 1", None, "a defect")


def test_only_the_latest_generations_are_listed():
    lives = [GenerationStarted(number, 1) for number in range(MOST_GENERATIONS + 5)]
    listed = with_times(*lives).generations
    assert len(listed) == MOST_GENERATIONS
    assert listed[-1].generation == MOST_GENERATIONS + 4


def test_which_generations_made_no_progress_stays_until_one_tells_otherwise():
    told = []
    status = INITIAL
    for no_progress in ((10,), (10, 0), None, ()):
        ended = GenerationEnded(0, "crashed", 0, 1.0, "restart", no_progress=no_progress)
        status = after(status, ended)
        told.append(status.no_progress)
    assert told == [(10,), (10, 0), (10, 0), ()]
