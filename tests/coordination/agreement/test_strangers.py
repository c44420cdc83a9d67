"""What a stranger writes below our prefix costs a sentence: no rank, no defect, no success."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import (
    Act,
    Exit,
    Read,
    RecordChange,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.decision_table import decide
from ascend_supervisor.coordination.agreement.memory import PeerMemory, memory_at, remember
from ascend_supervisor.coordination.agreement.records import (
    ABOUT_KEY,
    EPOCH_KEY,
    About,
    Beat,
    Cause,
    Charges,
    DamagedRecord,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Record,
    Seat,
    alive_key,
    decode,
    done_key,
    encode,
    ready_key,
    server_key,
)
from ascend_supervisor.coordination.agreement.situation import (
    Clocks,
    JobRules,
    Ranks,
    Self,
    Situation,
)
from ascend_supervisor.coordination.agreement.view import view_of
from ascend_supervisor.coordination.peers.ends import ended_by, pending_failure, restart_at
from ascend_supervisor.coordination.peers.words import heard, seen
from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from tests.coordination.agreement.store import compared, deleted_by, put_by

BUDGET = RestartBudget(3, backoff=Backoff(8.0, 60.0))
OURS = JobRules(Self("A", "a", 0), 2, BUDGET, settings="s")
NEWCOMER = replace(OURS, own=Self("C", "c"))
ROSTER = (Seat("A", "a"), Seat("B", "b"))
FAILURE = Failure("rank 1", 1, 3, ExitStatus(7), 2.0)
ABOUT = About("w", "s", ROSTER, charges=Charges((5.0,), 1, ExitStatus(7), 1, 9.0))
MEMBERS: dict[str, Record] = {
    server_key(0): Member("job", "A", "a"),
    server_key(1): Member("job", "B", "b"),
    alive_key(0): Beat("A"),
    alive_key(1): Beat("B"),
}
RUN = {EPOCH_KEY: Epoch("job", 4, Phase.RUN, "w"), ABOUT_KEY: ABOUT, **MEMBERS}
GATHER = {
    EPOCH_KEY: Epoch("job", 5, Phase.GATHER, "w"),
    ABOUT_KEY: replace(ABOUT, cause=Cause(1, 7, "rank 1 failed", FAILURE), delay=3.0),
    ready_key(5, 0): PhaseMark("A", "t"),
    ready_key(5, 1): PhaseMark("B", "t"),
    **MEMBERS,
}
END = {
    EPOCH_KEY: Epoch("job", 4, Phase.END, "w", 7),
    ABOUT_KEY: replace(ABOUT, cause=Cause(1, 7, "rank 1 failed", FAILURE), why="no restarts"),
    **MEMBERS,
}
RUNNING = Situation(Ranks.RUNNING, 4, table="t")

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BOMB = zlib.compress(b'{"stamp":"' + b"x" * 8_000_000 + b'"}')
NUMBERS = (-1, 1, 255, 256, 4096, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 0.5, 1e300)
KEYS = (
    *GATHER,
    *RUN,
    "done/4/0",
    "done/4/1",
    "ready/4/0",
    "alive/7",
    "server/7",
    "notes",
    "epoch/1",
)
STRANGE_KEYS = (f"server/{'1' * 5000}", "alive/01", "server/-1", f"done/{'9' * 25}/0", "ready/5/x")


def bytes_of(records: Mapping[str, Record]) -> dict[str, bytes]:
    return {name: encode(record) for name, record in records.items()}


def next_act(
    values: Mapping[str, bytes], memory: PeerMemory, rules: JobRules, situation: Situation
) -> Act:
    """What follows from a read of these keys; all that is told of them is told, too."""
    read = view_of(values, 2, rules.servers)
    memory = remember(memory, read, 102.0, 102.0, rules)
    act = decide(read, memory, Clocks(102.0, "new", 0.5), situation, rules)
    assert all(isinstance(one.text, str) for one in heard((), read, rules.servers, 1.0))
    seen(heard((), read, rules.servers, 1.0), (), 2.0)
    restart_at(memory, BUDGET, 103.0)
    pending_failure(memory)
    if isinstance(act, Exit):
        assert 0 < ended_by(act, memory).exit_code < 256
    return act


def known(records: Mapping[str, Record], rules: JobRules) -> PeerMemory:
    memory = memory_at(100.0)
    for at in (100.0, 101.0):
        read = view_of(bytes_of(records), 1, rules.servers)
        memory = replace(remember(memory, read, at, at, rules), cautious_until=0.0)
    return replace(memory, started=4)


values_of_junk = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"{}", b"[]", b"null", b"{", DEEP, BOMB, b"1" * 5000]),
    st.sampled_from([b'{"incarnation":1}', b'{"incarnation":"A","digest":[]}', b'{"job":"job"}']),
)
junk = st.dictionaries(st.sampled_from((*KEYS, *STRANGE_KEYS)), values_of_junk, min_size=1)


@settings(max_examples=100, deadline=None)
@given(junk)
def test_what_is_no_record_ends_no_rank_and_is_put_right(written):
    """Also if somebody writes to every key at once."""
    memory, values = known(RUN, OURS), {**bytes_of(RUN), **written}
    for _ in range(4):
        act = next_act(values, memory, OURS, RUNNING)
        assert isinstance(act, (WaitUntil, Read, RecordChange)), act
        if not isinstance(act, RecordChange):
            break
        assert all(values.get(key) == value for key, value in compared(act).items())
        values |= put_by(act)
        for gone in deleted_by(act):
            values.pop(gone, None)
    read = view_of(values, 3, 2)
    assert read.epoch is not None
    assert read.about is not None
    assert read.epoch == replace(RUN[EPOCH_KEY], stamp=read.epoch.stamp)
    about = replace(read.about, epoch=None)
    assert about == replace(ABOUT, stamp=read.epoch.stamp, again=about.again)
    assert (read.members[0], read.alive[0]) == (RUN[server_key(0)], "A")


@settings(max_examples=60, deadline=None)
@given(junk, st.sampled_from([RUN, GATHER, END]), st.sampled_from([OURS, NEWCOMER]))
def test_what_is_no_record_is_no_defect_and_no_success(written, records, rules):
    memory = memory_at(101.0)
    next_act({**bytes_of(records), **written}, memory, rules, Situation(table="t"))


@st.composite
def lies(draw):
    """A true record with another value somewhere."""
    records = draw(st.sampled_from([RUN, GATHER, END]))
    values = bytes_of(records)
    for name in draw(st.lists(st.sampled_from(sorted(records)), min_size=1, max_size=3)):
        document = json.loads(encode(records[name]))
        at, spot = draw(st.sampled_from(sorted(spots(document), key=repr)))
        found = document
        for step in at:
            found = found[step]
        found[spot] = draw(st.one_of(st.sampled_from(NUMBERS), st.text(max_size=3), st.none()))
        values[name] = json.dumps(document).encode()
    return values


def spots(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a value in a document, as a path and its last step."""
    steps = document if isinstance(document, dict) else range(len(document))
    for step in steps:
        yield at, step
        if isinstance(document[step], (dict, list)):
            yield from spots(document[step], (*at, step))


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(lies(), st.sampled_from([OURS, NEWCOMER]), st.booleans(), st.sampled_from([None, 15]))
def test_a_record_with_another_value_is_no_defect_and_no_success(values, rules, knows, stop):
    memory = known(RUN, rules) if knows else memory_at(101.0)
    next_act(values, memory, rules, replace(RUNNING, stop=stop))
    next_act(values, memory, rules, Situation(table="t", stop=stop))


@pytest.mark.parametrize("number", [256, -1, 10**30, 2**63 - 1])
def test_a_number_out_of_its_range_damages_its_record(number):
    damaged: tuple[tuple[Any, Any], ...] = (
        ({"job": "j", "generation": 0, "phase": "end", "stamp": "", "exit_code": number}, Epoch),
        ({"job": "j", "generation": number * 10**9, "phase": "run", "stamp": ""}, Epoch),
        ({"stamp": "", "settings": "", "charges": {"free": number * 10**9}}, About),
        ({"stamp": "", "settings": "", "delay": number * 1e11}, About),
        (
            {
                "stamp": "",
                "settings": "",
                "cause": {"server": 0, "exit_code": number, "reason": ""},
            },
            About,
        ),
        ({"job": "", "incarnation": "", "place": "", "devices": [[number * 10**6]]}, Member),
    )
    for document, kind in damaged:
        with pytest.raises(DamagedRecord):
            decode("key", json.dumps(document).encode(), kind)


def test_a_job_has_not_succeeded_where_a_member_has_not():
    lie = {
        **RUN,
        EPOCH_KEY: Epoch("job", 4, Phase.END, "w", 0),
        done_key(4, 1): PhaseMark("B", "t"),
    }
    act = next_act(bytes_of(lie), known(RUN, OURS), OURS, RUNNING)
    assert isinstance(act, RecordChange)
    assert act.why == "epoch: it says that the job has succeeded, but server 0 has not"
    true = {**lie, done_key(4, 0): PhaseMark("A", "t")}
    assert view_of(bytes_of(true), 1).epoch == lie[EPOCH_KEY]


def test_who_was_not_told_to_stop_takes_its_farewell_back():
    left = {**RUN, server_key(0): Member("job", "A", "a", has_left=True)}
    act = next_act(bytes_of(left), known(RUN, OURS), OURS, RUNNING)
    assert isinstance(act, RecordChange)
    assert decode(server_key(0), put_by(act)[server_key(0)], Member) == RUN[server_key(0)]
    stopped = next_act(bytes_of(left), known(RUN, OURS), OURS, replace(RUNNING, stop=15))
    assert isinstance(stopped, Exit)


@pytest.mark.parametrize("beat", [b"junk", b'{"incarnation":"stranger"}'])
def test_an_alive_that_was_overwritten_is_a_loss_only_after_a_ttl(beat):
    written, memory = {**bytes_of(RUN), alive_key(1): beat}, known(RUN, OURS)
    assert isinstance(next_act(written, memory, OURS, RUNNING), WaitUntil)
    read = view_of(written, 2)
    for second in range(103, 114):
        memory = replace(remember(memory, read, second, second, OURS), cautious_until=0.0)
    act = decide(read, memory, Clocks(113.0, "new"), RUNNING, OURS)
    assert isinstance(act, RecordChange)
    assert act.why == "server 1 was lost"


def test_who_does_not_know_the_job_writes_none_over_a_damaged_one():
    memory, values = memory_at(0.0), bytes_of(RUN) | {EPOCH_KEY: b"junk"}
    for second in range(60):
        memory = remember(memory, view_of(values, 1), second, second, NEWCOMER)
    act = decide(view_of(values, 1), memory, Clocks(59.0, "new"), Situation(table="t"), NEWCOMER)
    assert isinstance(act, WaitUntil)
    assert act.reason.startswith("epoch: expected a record of this job, found b'junk'")


def test_marks_of_strangers_are_deleted_a_few_at_a_time():
    many = {ready_key(number, 0): b"junk" for number in range(1000, 1500)}
    values = {**bytes_of(GATHER), **many}
    del values[ready_key(5, 0)]
    act = next_act(values, known(GATHER, OURS), OURS, Situation(table="t"))
    assert isinstance(act, RecordChange)
    assert len(act.when) + len(act.then) < 128


def test_keys_of_indices_outside_the_job_are_not_decoded():
    read = view_of({**bytes_of(RUN), server_key(2): DEEP, alive_key(2): BOMB}, 1, 2)
    assert read.damaged == {}
