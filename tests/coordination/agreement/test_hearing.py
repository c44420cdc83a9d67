"""What a server does when it is told where the job stands, without reading."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import EndRanks, StartRanks
from ascend_supervisor.coordination.agreement.case import Home
from ascend_supervisor.coordination.agreement.hearing import heard
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import About, Cause, Epoch, Phase, Seat
from ascend_supervisor.coordination.agreement.situation import (
    Clocks,
    JobRules,
    Ranks,
    Self,
    Situation,
)
from ascend_supervisor.restart_policy import RestartBudget

NOW = 100.0
ROSTER = tuple(Seat(f"i{index}", "place") for index in range(3))
RULES = JobRules(Self("i0", "place", 0), 3, RestartBudget(1))
CAUSE = Cause(1, 3, "rank 1 has failed")
RUNS = Home(
    PeerMemory(
        contact=NOW - 1,
        heard=NOW - 1,
        read=NOW - 1,
        index=0,
        jobs=("job",),
        epoch=Epoch("job", 0, Phase.RUN, "run"),
        about=About("run", "", ROSTER),
        started=0,
    ),
    Clocks(NOW, "word"),
    Situation(Ranks.RUNNING, 0, table="t"),
    RULES,
)


def told(epoch: Epoch, roster: tuple[Seat, ...] = ROSTER) -> About:
    return About(epoch.stamp, "", roster, CAUSE, epoch=epoch)


GATHERS = told(Epoch("job", 1, Phase.GATHER, "gather"))
STARTS = told(Epoch("job", 1, Phase.RUN, "starts"))


def ready() -> Home:
    """For generation 1, which is gathered for."""
    memory = replace(RUNS.memory, epoch=GATHERS.epoch, about=GATHERS)
    return replace(RUNS, memory=memory, situation=Situation(generation=0, table="t"))


def test_who_hears_that_the_servers_gather_ends_its_ranks():
    found = heard(GATHERS, RUNS)
    assert found is not None
    assert found.act == EndRanks(CAUSE.reason)
    assert (found.memory.epoch, found.memory.about) == (GATHERS.epoch, GATHERS)
    assert found.memory.phase_seen == NOW
    assert found.memory.contact == RUNS.memory.contact
    assert found.view.known == frozenset({0})
    assert found.until == NOW - 1 + RULES.ttl / 2


def test_who_hears_that_the_next_generation_runs_starts_its_ranks():
    found = heard(STARTS, ready())
    assert found is not None
    assert found.act == StartRanks(1, ROSTER)


@pytest.mark.parametrize(
    "epoch",
    [
        Epoch("job", 0, Phase.RUN, "again"),
        Epoch("job", 0, Phase.GATHER, "earlier"),
        Epoch("another", 1, Phase.GATHER, "gather"),
        Epoch("job", 0, Phase.END, "end"),
        Epoch("job", 1, Phase.END, "end", 3),
    ],
    ids=lambda epoch: f"{epoch.job} {epoch.phase.value} {epoch.generation}",
)
def test_what_is_not_the_next_phase_of_our_job_is_read(epoch):
    assert heard(told(epoch), RUNS) is None


def test_what_another_version_has_written_or_belongs_to_another_epoch_is_read():
    assert heard(replace(GATHERS, epoch=None), RUNS) is None
    assert heard(replace(GATHERS, stamp="other"), RUNS) is None


@pytest.mark.parametrize(
    "memory",
    [
        replace(RUNS.memory, contact=NOW - RULES.patience),
        replace(RUNS.memory, contact=NOW - RULES.ttl - 1, read=NOW - RULES.ttl - 1),
        replace(RUNS.memory, ended=Epoch("job", 0, Phase.END, "end")),
        replace(RUNS.memory, misses_own_keys=True),
        replace(RUNS.memory, index=None),
    ],
    ids=["the fence falls", "it stood still", "the end is read", "its keys are gone", "no index"],
)
def test_who_must_look_first_or_end_hears_nothing(memory):
    assert heard(GATHERS, replace(RUNS, memory=memory)) is None


def test_who_is_to_do_something_else_first_reads():
    is_told_to_stop = replace(ready().situation, stop=15)
    assert heard(STARTS, replace(ready(), situation=is_told_to_stop)) is None
    assert heard(told(STARTS.epoch or Epoch("", 0, Phase.RUN, ""), ROSTER[1:]), ready()) is None
    ends_ranks_already = replace(RUNS.situation, ranks=Ranks.ENDING)
    assert heard(GATHERS, replace(RUNS, situation=ends_ranks_already)) is None
