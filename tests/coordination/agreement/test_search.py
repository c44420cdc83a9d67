"""Everything that can happen to two servers, searched state by state.

A server looks, decides with the real functions, and writes later: in between others may write.
Time is in ticks of TTL/2 and passes when nobody has anything to do. The bounds below are numbers of
states ("worlds"), those with the fewest events first; ``scripts/explore-peers`` goes deeper.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

import pytest

from ascend_supervisor.coordination.agreement.history import FailureLimit
from tests.coordination.agreement.process import CRASH
from tests.coordination.agreement.search import Found, explore, walk
from tests.coordination.agreement.world import (
    FAULTS,
    FORBID,
    SCRIBBLE,
    STUCK,
    UNABLE,
    UNFIT,
    Model,
    World,
)

pytestmark = pytest.mark.thorough

ALL = 25_000
"""Any one fault in a running generation has fewer worlds, without a newcomer."""
MOST_FROM_COLD = 3_000
"""All of most faults; a freeze has 25,000 worlds, a cut 15,000."""
PAIRS = tuple(combinations_with_replacement(FAULTS, 2))
MOST_WITH_A_FORBIDDEN_START = 4_000
"""With a failure, from cold: 28,196 worlds are all. Where ranks that wait for a start that was
withdrawn failed at once, they were charged after 2,638."""
MOST_OF_PAIRS = 500
"""Five to eight events; a pair has 2,000 to 100,000 worlds, with a newcomer 1,000,000 and more."""
ALL_WITH_A_SPARE = 40_000
"""Any one fault in a running generation, with a spare: 269 worlds without a fault, 2,900 of a
failure, 4,200 of a kill, 5,900 of a SIGTERM, 30,700 of a freeze."""
MOST_FROM_COLD_WITH_A_SPARE = 3_000
"""Complete with 14,519 worlds without a fault, 59,000 of a kill, 230,000 of a
stall: ``scripts/explore-peers`` searched them."""
MOST_OF_PAIRS_WITH_A_SPARE = 500
"""Five to seven events."""
MOST_OF_MANY = 2_500
"""Three servers that read as those of many do, each with the ``alive`` of the next one, and the
roster in blocks of two. All 579 worlds without a fault are seen; ``scripts/explore-peers`` saw
60,000 of each fault, which are ten to 28 events."""
MOST_AT_REST = 4_500
"""The same where they read less while they run: a whole tick may pass between two looks. All 337
worlds of two servers without a fault, 2,329 of a failure, 2,369 of a kill, 3,978 of a SIGTERM, and
all 4,110 of three without a fault. ``scripts/explore-peers`` saw all 21,610 of a freeze."""
AT_ONCE = FailureLimit(1, 1)
"""A server leaves after its first failure: so the fewest events lead to it."""
ALL_WITH_LEAVING = 12_000
"""Any one of these faults, with a spare: 269 worlds without a fault, 7,183 of a failure, 4,573 of a
kill, 6,096 of a SIGTERM."""
MOST_OF_LEAVING = 1_500
"""Of a failure and another fault: seven to 20 events."""
UNABLES = (UNFIT, UNABLE, STUCK)
ALL_UNABLE = 41_000
"""A failure, after which a check finds a server unfit, with a spare: 19,712 worlds; 34,872 where
who fails leaves, too. One that cannot start its ranks: 24,288 and 40,300; one that cannot end them:
12,410 and 30,132."""
MOST_UNABLE = 3_000
"""Of two unfit servers and one spare, of any other fault, and of three that read what is near.
``scripts/explore-peers`` saw all 51,100 worlds of a failure and two unfit servers with one spare,
and all 115,396 of one that is unfit from the first start on."""
WALKS, STEPS = 6, 50
"""Each walk then goes on without further faults, and must come to an end."""


def searched(model: Model, start: World, most: int) -> Found:
    found = explore(model, start, most)
    print(found)  # noqa: T201  (how far the search went)
    assert found.violation is None, str(found)
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_two_servers_survive_any_fault(fault):
    model = Model(2)
    assert searched(model, model.running((fault,)), ALL).is_complete


@pytest.mark.parametrize("fault", FAULTS)
def test_two_servers_survive_any_fault_while_they_start(fault):
    model = Model(2)
    searched(model, model.cold((fault,)), MOST_FROM_COLD)


@pytest.mark.parametrize("faults", PAIRS, ids="-".join)
def test_two_servers_survive_any_two_faults(faults):
    model = Model(2)
    searched(model, model.running(faults), MOST_OF_PAIRS)


@pytest.mark.parametrize("fault", FAULTS)
def test_two_servers_survive_any_fault_while_a_cluster_forbids_a_start(fault):
    model, chance = Model(2), Random(fault)  # noqa: S311
    searched(model, model.running((fault, FORBID)), MOST_WITH_A_FORBIDDEN_START)
    searched(model, model.cold((fault, FORBID)), MOST_WITH_A_FORBIDDEN_START)
    for _ in range(WALKS):
        walk(model, model.running((fault, FORBID)), chance, STEPS)
        walk(model, model.cold((fault, FORBID, FORBID)), chance, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("spares", [0, 1])
def test_any_key_may_be_overwritten_at_any_moment(spares):
    model = Model(2, spares=spares)
    assert searched(model, model.running((SCRIBBLE,)), ALL).is_complete


@pytest.mark.parametrize("fault", [SCRIBBLE, *FAULTS])
def test_two_servers_survive_a_stranger_who_overwrites_a_key(fault):
    model, chance = Model(2), Random(fault)  # noqa: S311
    searched(model, model.running((fault, SCRIBBLE)), MOST_OF_PAIRS)
    searched(model, model.cold((SCRIBBLE,)), MOST_OF_PAIRS)
    for _ in range(WALKS):
        walk(model, model.running((fault, SCRIBBLE)), chance, STEPS)
        walk(model, model.cold((fault, SCRIBBLE, SCRIBBLE), ("same",)), chance, STEPS)


@pytest.mark.long
@pytest.mark.parametrize("faults", [(), *((fault,) for fault in FAULTS)], ids="-".join)
def test_two_servers_and_a_spare_survive_any_fault(faults):
    model = Model(2, spares=1)
    assert searched(model, model.running(faults), ALL_WITH_A_SPARE).is_complete


@pytest.mark.parametrize("fault", FAULTS)
def test_two_servers_and_a_spare_survive_any_fault_while_they_start(fault):
    model = Model(2, spares=1)
    searched(model, model.cold((fault,)), MOST_FROM_COLD_WITH_A_SPARE)


@pytest.mark.parametrize("faults", PAIRS, ids="-".join)
def test_two_servers_and_a_spare_survive_any_two_faults(faults):
    model, chance = Model(2, spares=1), Random(f"{faults}")  # noqa: S311
    searched(model, model.running(faults), MOST_OF_PAIRS_WITH_A_SPARE)
    for _ in range(WALKS):
        walk(model, model.running(faults), chance, STEPS)
        walk(model, model.cold(faults), chance, STEPS)


@pytest.mark.parametrize("fault", ["", "fail", "kill", "term"])
def test_a_server_leaves_well_whatever_one_fault_comes(fault):
    model = Model(2, spares=1, leave_after=AT_ONCE)
    assert searched(model, model.running((fault,) if fault else ()), ALL_WITH_LEAVING).is_complete


@pytest.mark.parametrize("spares", [1, 2])
@pytest.mark.parametrize("fault", [SCRIBBLE, *FAULTS])
def test_a_server_leaves_well_whatever_comes_after_a_failure(fault, spares):
    model, chance = Model(2, spares=spares, leave_after=AT_ONCE), Random(fault)  # noqa: S311
    searched(model, model.running(("fail", fault)), MOST_OF_LEAVING)
    for _ in range(WALKS):
        walk(model, model.running(("fail", fault), ("same", "other")), chance, STEPS)
        walk(model, model.cold(("fail", fault), ("same",)), chance, STEPS)


def test_the_search_sees_a_server_that_leaves_because_of_another():
    """As it does where the ranks that have lost others say nothing."""
    model = Model(2, spares=1, leave_after=AT_ONCE, lost_peer=CRASH)
    found = explore(model, model.running(("fail",)), ALL_WITH_LEAVING)
    assert found.violation is not None
    assert found.violation.name == "blame"


@pytest.mark.parametrize("limit", [FailureLimit(), AT_ONCE], ids=str)
@pytest.mark.parametrize("unable", UNABLES)
def test_an_unable_server_leaves_to_a_spare_and_costs_nothing(unable, limit):
    model = Model(2, spares=1, leave_after=limit)
    assert searched(model, model.running(("fail", unable)), ALL_UNABLE).is_complete


@pytest.mark.parametrize("unable", UNABLES)
def test_the_search_sees_what_an_unable_server_costs_although_a_spare_waits(unable):
    model = Model(2, spares=1, without=frozenset({"leave_unable"}))
    found = explore(model, model.running(("fail", unable)), ALL_UNABLE)
    assert found.violation is not None
    assert found.violation.name == "spare"


@pytest.mark.parametrize("fault", [*UNABLES, FORBID, *FAULTS])
@pytest.mark.parametrize("unable", UNABLES)
def test_an_unable_server_leaves_well_whatever_else_comes(unable, fault):
    chance = Random(f"{unable} {fault}")  # noqa: S311
    for model in (Model(2, spares=1), Model(3, spares=1, reach=1)):
        searched(model, model.running(("fail", unable, fault)), MOST_UNABLE)
        searched(model, model.cold((unable, fault)), MOST_UNABLE)
        for _ in range(WALKS):
            walk(model, model.running(("fail", unable, fault), ("other",)), chance, STEPS)
            walk(model, model.cold((unable, fault)), chance, STEPS)


@pytest.mark.parametrize("newcomer", ["same", "other"])
@pytest.mark.parametrize("faults", PAIRS, ids="-".join)
def test_two_servers_survive_walks_with_two_faults_and_a_newcomer(faults, newcomer):
    model, chance = Model(2), Random(f"{faults} {newcomer}")  # noqa: S311
    for _ in range(WALKS):
        walk(model, model.running(faults, (newcomer,)), chance, STEPS)


@pytest.mark.parametrize("faults", [(), *((fault,) for fault in (*FAULTS, SCRIBBLE))], ids="-".join)
def test_three_servers_that_read_only_what_is_near_survive_any_fault(faults):
    model, chance = Model(3, reach=1), Random(f"{faults}")  # noqa: S311
    found = searched(model, model.running(faults), MOST_OF_MANY)
    assert found.is_complete or faults
    searched(model, model.cold(faults), MOST_OF_MANY)
    for _ in range(WALKS):
        walk(model, model.running((*faults, *faults), ("same", "other")), chance, STEPS)
        walk(model, model.cold(faults, ("same",)), chance, STEPS)


@pytest.mark.parametrize("faults", [(), *((fault,) for fault in (*FAULTS, SCRIBBLE))], ids="-".join)
def test_servers_of_many_that_read_less_at_rest_survive_any_fault(faults):
    two, three = (Model(servers, reach=1, rests=True) for servers in (2, 3))
    found = searched(two, two.running(faults), MOST_AT_REST)
    assert found.is_complete or not {*faults} <= {"fail", "kill", "term"}
    found = searched(three, three.running(faults), MOST_AT_REST)
    assert found.is_complete or faults
    chance = Random(f"{faults}")  # noqa: S311
    for _ in range(WALKS):
        walk(three, three.running((*faults, *faults), ("same", "other")), chance, STEPS)
