"""A server whose index changes with the rank table leaves the one, and takes the other."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import EndRanks, Forget, RecordChange, WaitUntil
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import carried_out, remember
from ascend_supervisor.coordination.agreement.records import Member, PhaseMark, Spare, decode
from ascend_supervisor.coordination.agreement.situation import Clocks, JobRules, Self
from ascend_supervisor.coordination.agreement.view import View, view_of
from tests.coordination.agreement.store import Item, Store, deleted_by, put_by, transacted
from tests.coordination.agreement.test_decision import (
    ABOUT,
    GATHER,
    READY,
    ROSTER,
    RULES,
    RUNNING,
    act,
    known,
    view,
    without,
)

MOVED = replace(RULES, own=Self("A", "a", index=1))
SWAPPED = replace(RULES, own=Self("B", "b", index=0))
SEEN = view(GATHER, replace(ABOUT, roster=ROSTER), ready__0__0=PhaseMark("A", "t"))


def next_act(store: Store, memory, rules: JobRules, at: float):
    """What a server does next, and what it remembers then."""
    seen = view_of(store.values(), 1)
    memory = remember(memory, seen, at, at, rules)
    return decide(seen, memory, Clocks(at, f"w{at:g}"), READY, rules), memory


def test_it_leaves_its_index_once_its_ranks_are_gone():
    assert isinstance(act(SEEN, replace(RUNNING), rules=MOVED), EndRanks)
    written = act(SEEN, rules=MOVED)
    assert isinstance(written, RecordChange)
    ((key, value),) = put_by(written).items()
    assert key == records.server_key(0)
    assert decode(key, value, Member).has_left
    assert deleted_by(written) == ("alive/0", "ready/0/0")
    assert carried_out(known(SEEN), written, 100, MOVED).index is None


def test_it_waits_for_the_other_index_as_long_as_another_holds_it():
    left = Member("job", "A", "a", has_left=True)
    free = view(GATHER, server__0=left, spare__A=Spare("A", index=1))
    assert isinstance(act(without(free, "alive/0"), rules=MOVED), WaitUntil)


def test_an_answer_that_was_lost_is_no_farewell():
    left = view(GATHER, server__0=Member("job", "A", "a", has_left=True))
    memory = remember(known(SEEN), without(left, "alive/0"), 101, 101, MOVED)
    assert memory.index == 0
    found = decide(without(left, "alive/0"), memory, Clocks(101, "new"), READY, MOVED)
    assert isinstance(found, Forget)


def test_servers_that_change_places_meet_again():
    store = Store(tuple(Item(key, value) for key, value in sorted(SEEN.values.items())))
    memories = {"A": known(SEEN, rules=MOVED), "B": known(SEEN, rules=SWAPPED)}
    for at in range(101, 111):
        for name, rules in (("A", MOVED), ("B", SWAPPED)):
            found, memories[name] = next_act(store, memories[name], rules, at)
            if isinstance(found, RecordChange) and (after := transacted(store, found, name)):
                store = after
                memories[name] = carried_out(memories[name], found, at, rules)
    seen: View = view_of(store.values(), 1)
    assert seen.epoch is not None
    assert (seen.epoch.phase.value, seen.epoch.generation) == ("run", 0)
    assert [seen.members[index].incarnation for index in (0, 1)] == ["B", "A"]
    assert memories["A"].index == 1
