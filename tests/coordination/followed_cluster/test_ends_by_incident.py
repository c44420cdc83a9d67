"""How an incident of the cluster ends the ranks, and what it says of itself."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.reset_file import ListedRank, ResetFile
from ascend_supervisor.coordination.followed_cluster.incident import Incident, fault
from ascend_supervisor.coordination.followed_cluster.incident_detection import (
    faulty,
    not_reset,
    unrecovered,
    with_status,
)
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Patience, Remedy
from tests.coordination.followed_cluster.stories import (
    BEGIN,
    ELSEWHERE,
    LOCAL,
    WITHDRAWN,
    Change,
    R,
    Server,
    Story,
    T,
    listed,
    play,
)

JOBS = Patience(drain=190.0, grace=30.0)


def incident(*story: tuple[int, Change], until: int = 500) -> Incident:
    """The incident that stands at last."""
    server = Server(ending=1000)
    play(server, (*BEGIN, *story), until)
    assert server.memory.incident is not None
    return server.memory.incident


@pytest.mark.parametrize(
    ("story", "patience"),
    [
        (((70, T(WITHDRAWN)),), JOBS),
        (((70, T("B")),), JOBS),
        (((70, R(1)),), JOBS),
        (((70, listed(ELSEWHERE, "unrecovered")),), None),
        (((70, listed(ELSEWHERE, "unrecovered", 1)),), None),
    ],
)
def test_where_pods_are_replaced_the_ranks_have_the_drain(
    story: Story, patience: Patience | None
) -> None:
    told = fault(incident(*story), JOBS, reset_grace=0.0)
    assert (told.remedy, told.exit_code, told.patience) == (Remedy.FREE, UNAVAILABLE, patience)


@pytest.mark.parametrize(
    ("reset_grace", "hurried_grace"), [(0.0, 0.0), (5.0, 5.0), (10.0, 10.0), (50.0, 10.0)]
)
@pytest.mark.parametrize("before", [(), ((70, T(WITHDRAWN)),), ((70, R(1)),)])
@pytest.mark.parametrize("after", [(), ((81, R(1, ((ELSEWHERE, "unrecovered"),))),)])
def test_an_npu_of_ours_waits_for_the_end_of_the_ranks(
    before: Story, after: Story, reset_grace: float, hurried_grace: float
) -> None:
    both = R(1, ((LOCAL, "unrecovered"), (ELSEWHERE, "unrecovered")))
    told = fault(incident(*before, (80, both), *after), JOBS, reset_grace)
    assert told.remedy is Remedy.FREE
    hurried = frozenset({LOCAL})
    assert told.patience == Patience(0.0, reset_grace, hurried=hurried, hurried_grace=hurried_grace)


@pytest.mark.parametrize(
    "last",
    [listed(LOCAL, "fault"), listed(ELSEWHERE, "failed"), R(graceful_exit=True)],
)
def test_no_restart_follows_where_the_cluster_starts_us_anew(last: R) -> None:
    for before in ((), ((70, T("B")),), ((70, listed(LOCAL, "unrecovered")),)):
        told = fault(incident(*before, (80, last)), JOBS, 50.0)
        assert (told.remedy, told.exit_code, told.patience) == (Remedy.FINAL, UNAVAILABLE, None)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (((70, T(WITHDRAWN)),), "has not been completed for 5 s: status is 'initializing'"),
        (((70, T("B")),), "the rank table has changed"),
        (((70, R(1)),), "RetryTime in the reset file went from 0 to 1"),
        (((70, listed(LOCAL, "unrecovered")),), "the NPU of rank 1 must be reset"),
        (((70, listed(LOCAL, "fault")),), "the NPU of rank 1 has a fault"),
        (((70, listed(ELSEWHERE, "failed")),), "the reset of the NPU of rank 2 has failed"),
        (((70, R(graceful_exit=True)),), "asks for a graceful end"),
    ],
)
def test_an_incident_says_what_told_of_it(story: Story, reason: str) -> None:
    assert reason in incident(*story).reason
    assert reason in fault(incident(*story), JOBS, 0.0).reason


def test_an_incident_names_the_codes_of_its_faults_each_once() -> None:
    ranks = (
        ListedRank(1, "fault", ("8C03A000", "80E18401")),
        ListedRank(0, "fault", ("8C03A000",)),
    )
    assert faulty(ResetFile(ranks), (0, 1)) == (
        "the NPUs of ranks 0, 1 have a fault (reset file, error 8C03A000, 80E18401)"
    )
    assert not_reset(ResetFile(ranks), (0,)) == (
        "the reset of the NPU of rank 0 has failed (reset file, error 8C03A000)"
    )
    assert unrecovered(ResetFile(ranks), (7,)) == (
        "the NPU of rank 7 must be reset (unrecovered in the reset file)"
    )


def test_an_incident_of_a_large_job_is_told_in_one_line() -> None:
    ranks = tuple(ListedRank(rank, "unrecovered", (f"{rank:08X}",)) for rank in range(5000))
    news = ResetFile((*ranks, *ranks))
    said = unrecovered(news, with_status(news, "unrecovered"))
    assert said.startswith("the NPUs of ranks 0, 1, 2, 3, ")
    assert "and 4984 more must be reset" in said
    assert len(said) < 250
