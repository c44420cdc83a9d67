"""The last word of every server, from what is read in etcd."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.history import LeftServer
from ascend_supervisor.coordination.agreement.records import (
    ABOUT_KEY,
    EPOCH_KEY,
    About,
    Beat,
    Cause,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Record,
    Seat,
    alive_key,
    encode,
    server_key,
)
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.coordination.peers.words import Others, heard, seen

CAUSE = Cause(1, 7, "rank 3 exited with status 7")


def view(phase: Phase, cause: Cause | None = None, **records: Record) -> View:
    """Server 0 lives and is in the roster with server 1; ``records`` by key, ``_`` for a slash."""
    roster = (Seat("i0", "p0"), Seat("i1", "p1"))
    values: dict[str, Record] = {
        EPOCH_KEY: Epoch("job", 3, phase, "s", 9),
        ABOUT_KEY: About("s", "", roster, cause),
        server_key(0): Member("job", "i0", "p0"),
        alive_key(0): Beat("i0"),
    }
    values |= {name.replace("_", "/"): record for name, record in records.items()}
    return view_of({name: encode(record) for name, record in values.items()}, 1)


def phases(of: View) -> list[str]:
    return [word.phase for word in heard((), of, 2, 0.0)]


def test_of_whom_nothing_was_read_it_is_told_what_all_do():
    for phase, word in ((Phase.GATHER, "gathering"), (Phase.RUN, "running"), (Phase.END, "ending")):
        assert phases(replace(view(phase), known=frozenset({0})))[1] == word


def test_what_was_read_of_it_in_the_same_phase_stays():
    others = Others()
    others.look(view(Phase.GATHER, server_1=LEFT), 2, 0.0)
    others.look(replace(view(Phase.GATHER), known=frozenset({0})), 2, 1.0)
    assert [word.phase for word in others.words] == ["gathering", "left"]
    assert (others.missing(0, 2), others.hosts([1])) == ((1,), ("",))
    others.look(replace(view(Phase.RUN), known=frozenset({0})), 2, 2.0)
    assert [word.phase for word in others.words] == ["running", "running"]


def test_nobody_is_missing_of_whom_nothing_was_read():
    others = Others()
    others.look(replace(view(Phase.GATHER), known=frozenset({0})), 2, 1.0)
    assert others.missing(0, 2) == ()


HERE, LEFT = Member("job", "i1", "p1"), Member("job", "i1", "p1", has_left=True)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({}, "missing"),
        ({"server_1": HERE}, "lost"),
        ({"server_1": HERE, "alive_1": Beat("another")}, "lost"),
        ({"server_1": LEFT}, "left"),
        ({"server_1": HERE, "alive_1": Beat("i1")}, "gathering"),
        ({"server_1": HERE, "alive_1": Beat("i1"), "ready_3_1": PhaseMark("i1", "t")}, "ready"),
        ({"server_1": HERE, "alive_1": Beat("i1"), "ready_2_1": PhaseMark("i1", "t")}, "gathering"),
        ({"server_1": HERE, "alive_1": Beat("i1"), "ready_3_1": PhaseMark("i9", "t")}, "gathering"),
    ],
)
def test_before_a_generation(records, expected):
    assert phases(view(Phase.GATHER, **records))[1] == expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({"server_1": HERE, "alive_1": Beat("i1")}, "running"),
        ({"server_1": HERE}, "lost"),
        ({"server_1": HERE, "alive_1": Beat("another")}, "lost"),
        ({"server_1": LEFT}, "left"),
        ({"server_1": HERE, "done_3_1": PhaseMark("i1", "t")}, "done"),
        ({"server_1": HERE, "alive_1": Beat("i1"), "done_3_1": PhaseMark("i9", "t")}, "running"),
    ],
)
def test_in_a_generation(records, expected):
    assert phases(view(Phase.RUN, **records)) == ["running", expected]


def test_at_the_end():
    assert phases(view(Phase.END)) == ["ending", "ended"]
    assert heard((), view(Phase.END), 2, 0.0)[0].text == "ends with exit code 9"


def test_the_server_of_the_root_cause_says_it_until_the_next_generation_runs():
    for phase in (Phase.GATHER, Phase.END):
        words = heard((), view(phase, CAUSE), 2, 0.0)
        assert words[1].text == CAUSE.reason
        assert words[0].text != CAUSE.reason
    assert heard((), view(Phase.RUN, CAUSE), 2, 0.0)[1].text != CAUSE.reason


def test_a_word_is_as_old_as_its_first_sight():
    first = heard((), view(Phase.RUN, alive_1=Beat("i1")), 2, 10.0)
    again = heard(first, view(Phase.RUN), 2, 15.0)
    assert [word.since for word in again] == [10.0, 15.0]
    assert [one.age for one in seen(again, (), 17.5)] == [7.5, 2.5]


def test_data_that_are_lost_change_no_word():
    first = heard((), view(Phase.RUN), 2, 10.0)
    assert heard(first, view_of({}, 1), 2, 15.0) is first


def test_a_server_is_called_as_it_calls_itself_else_as_the_table_does():
    named = Member("job", "i1", "p1", addresses=("10.0.0.9",))
    words = heard((), view(Phase.GATHER, server_1=named), 2, 0.0)
    assert [one.host for one in seen(words, ("pod-0", "pod-1"), 0.0)] == ["pod-0", "10.0.0.9"]
    assert [one.host for one in seen(words, (), 0.0)] == ["", "10.0.0.9"]


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("::1",), ()])
@pytest.mark.parametrize("label", ["127.0.0.1", "10.0.0.8", ""])
def test_an_address_that_every_machine_has_names_none(addresses, label):
    called = Member("job", "i1", "p1", addresses, host="pod job-1, node n2, address 10.0.0.2")
    words = heard((), view(Phase.GATHER, server_1=called), 2, 0.0)
    expected = label if label == "10.0.0.8" and not addresses else "job-1"
    assert seen(words, ("", label), 0.0)[1].host == expected


def test_a_server_that_left_to_a_spare_says_why_and_the_spare_says_whom_it_follows():
    why = "was the first to fail in 2 of the last 3 failures (generation 1 at 10:02 UTC: x)"
    gone = LeftServer(1, "i1", 3, 0.0, "pod job-1, node n2", why)
    before = with_left(view(Phase.GATHER, CAUSE, server_1=LEFT), gone)
    first = "was the first to fail in 2 of the last 3 failures"
    assert heard((), before, 2, 0.0)[1].text == f"has left its place to a spare: it {first}"
    spare = Member("job", "i2", "p2")
    after = with_left(view(Phase.RUN, server_1=spare, alive_1=Beat("i2")), gone, Seat("i2", "p2"))
    expected = f"runs generation 3 in place of pod job-1, node n2, which {first}"
    assert heard((), after, 2, 0.0)[1].text == expected
    back = with_left(view(Phase.RUN, server_1=HERE, alive_1=Beat("i1")), gone)
    assert heard((), back, 2, 0.0)[1].text == "runs generation 3"


def with_left(of: View, gone: LeftServer, *seats: Seat) -> View:
    assert of.about is not None
    roster = (*of.about.roster[:1], *(seats or of.about.roster[1:]))
    return replace(of, about=replace(of.about, left=(gone,), roster=roster))
