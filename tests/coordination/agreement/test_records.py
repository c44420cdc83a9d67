"""The records as bytes, and the keys that they stand under."""

from __future__ import annotations

import gc
import tracemalloc
import zlib

import msgspec
import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import (
    LARGE,
    About,
    Beat,
    Cause,
    Charges,
    DamagedRecord,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Seat,
    decode,
    encode,
)
from ascend_supervisor.coordination.agreement.view import view_of
from ascend_supervisor.outcome import ExitStatus, Failure

JOB = "0123456789abcdef0123456789abcdef"
EPOCH = Epoch(JOB, 7, Phase.RUN, JOB)
DEVICES = (ServerDevice(0, "192.168.0.1"), ServerDevice(1))
SEATS = tuple(Seat(f"process {n}", f"place {n}", (f"10.0.0.{n}",), DEVICES) for n in range(1250))
FAILURE = Failure("rank 3", 3, 6, ExitStatus(None, 9), 12.5, last_lines=("a", "b"))
MEMBER = Member(JOB, "i", "p", ("a",), DEVICES, has_left=True)
ABOUT = About(
    JOB,
    "settings",
    SEATS[:2],
    Cause(1, 137, "killed", FAILURE, (0,)),
    Charges((1.5,), 1, ExitStatus(3)),
)


@pytest.mark.parametrize(
    "record",
    [
        EPOCH,
        ABOUT,
        Member(JOB, "i", "p", ("a",), DEVICES, has_left=True),
        PhaseMark("i", "d"),
        Beat("i"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_is_what_it_was(record):
    assert decode("key", encode(record), type(record)) == record


@pytest.mark.long
def test_what_is_remembered_of_large_records_is_bounded_in_bytes():
    before = traced_bytes()
    for number in range(60):
        value = encode(About(f"{number}", str(number) * 1_400_000))
        assert decode("about", value, About).stamp == f"{number}"
        huge = msgspec.json.encode(About(f"{number}", "p" * 1_000_000))
        assert decode("about", huge, About).stamp == f"{number}"
    assert traced_bytes() - before < 24 * 1024 * 1024  # each of these takes 1 MB or more


def test_all_records_of_a_large_job_are_remembered():
    devices = tuple(ServerDevice(number, f"192.168.100.{number}") for number in range(8))
    values = [
        encode(Member(f"job {n}", JOB, f"{JOB}@{JOB}", ("10.100.100.100",), devices, host=JOB))
        for n in range(1250)
    ]
    first = [decode("server/0", value, Member) for value in values]
    again = [decode("server/0", value, Member) for value in values]
    assert all(one is other for one, other in zip(first, again, strict=True))


def traced_bytes() -> int:
    """What the allocator of Python holds for objects that are in use."""
    gc.collect()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture(autouse=True)
def untraced():
    yield
    tracemalloc.stop()


def test_records_are_bounded_together():
    """Forty of 15 MB, compressed to nothing: each may be ours, or that of nobody."""
    bomb = zlib.compress(b'{"stamp":"' + b"x" * 15_000_000 + b'"}')
    values = {records.EPOCH_KEY: encode(EPOCH), records.ABOUT_KEY: bomb}
    values |= {records.server_key(index): bomb for index in range(40)}
    values |= {records.ready_key(7, index): bomb for index in range(40)}
    traced_bytes()
    view = view_of(values, 1, 40)
    assert len(view.damaged) == 41  # without an epoch no mark is looked at
    assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024


def test_an_epoch_is_small_because_every_write_compares_it():
    assert len(encode(EPOCH)) < 200


def test_a_large_record_is_compressed():
    about = About(JOB, "settings", SEATS)
    assert len(encode(about)) < LARGE * 8
    assert encode(about)[:1] != b"{"
    assert decode("about", encode(about), About) == about


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"job":1}',
        b'{"job":"j","generation":0,"phase":"stop","stamp":""}',
        encode(About(JOB, "settings", SEATS))[:-9],
    ],
)
def test_a_damaged_record_is_refused_with_its_key_and_what_was_found(value):
    with pytest.raises(DamagedRecord) as refused:
        decode("epoch", value, Epoch)
    assert str(refused.value).startswith("epoch: expected a record of this job, found b")
    assert refused.value.key == "epoch"


def test_keys_are_told_apart():
    assert records.key_parts(records.done_key(3, 12)) == ("done", (3, 12))
    assert records.key_parts(records.EPOCH_KEY) == ("epoch", ())
    for strange in (
        *("", "epoch/1", "server/x", "server/-1", "server/²", "ready/1", "notes"),
        *("server/01", "alive/00", f"server/{'1' * 5000}", "server/12345678901"),
    ):
        assert records.key_parts(strange) is None


def test_a_view_shows_the_generation_and_the_job_of_the_epoch_only():
    values = {
        records.EPOCH_KEY: encode(EPOCH),
        records.ABOUT_KEY: encode(ABOUT),
        records.server_key(0): encode(Member(JOB, "A", "a")),
        records.server_key(1): encode(Member("another job", "B", "b")),
        records.ready_key(7, 0): encode(PhaseMark("A", "t")),
        records.ready_key(6, 1): encode(PhaseMark("B", "t")),
        records.alive_key(0): encode(Beat("A")),
        "notes": b"of somebody else",
    }
    view = view_of(values, 5)
    assert (list(view.members), list(view.ready), view.alive) == ([0], [0], {0: "A"})
    assert view.living == view.prepared == (0,)
    assert view.marks_of(1) == (records.ready_key(6, 1),)


@pytest.mark.parametrize("name", ["ready/6/0", "done/6/0", "ready/8/1", "done/8/1"])
def test_marks_of_other_generations_are_ignored_whatever_they_hold(name):
    seen = view_of(
        {records.EPOCH_KEY: encode(EPOCH), records.ABOUT_KEY: encode(ABOUT), name: b"no record"}, 1
    )
    assert not seen.damaged
    assert (dict(seen.ready), dict(seen.done)) == ({}, {})
    assert seen.marks_of(int(name[-1])) == (name,)


def test_a_mark_of_the_generation_itself_that_is_no_record_counts_for_nothing_and_is_told():
    job = {records.EPOCH_KEY: encode(EPOCH), records.ABOUT_KEY: encode(ABOUT)}
    seen = view_of({**job, "ready/7/0": b"no record"}, 1)
    assert (dict(seen.ready), list(seen.damaged)) == ({}, ["ready/7/0"])


def test_an_epoch_counts_only_with_what_was_written_with_it():
    for about in (None, encode(replace(ABOUT, stamp="another")), b"no record"):
        job = {records.EPOCH_KEY: encode(EPOCH)} | (
            {} if about is None else {records.ABOUT_KEY: about}
        )
        seen = view_of(job, 1)
        assert (seen.epoch, seen.about) == (None, None)
        assert seen.damaged_epoch.startswith("about: expected ")
