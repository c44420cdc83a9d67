"""Transactions, leases and reads at a real etcd."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.client import etcd_client
from ascend_supervisor.etcd.failures import (
    LeaseNotFound,
    Refused,
    TooManyOperations,
    Unreachable,
)
from ascend_supervisor.etcd.values import (
    MOST_OPERATIONS,
    Absent,
    Delete,
    Equals,
    Get,
    Key,
    ModifiedAt,
    NotSince,
    Prefix,
    Put,
    Transaction,
)
from tests.etcd.asking import at, put, record_of, value_of
from tests.etcd.listeners import in_front_of

LEASE = 2**63 - 1
MINUTE = 60
ALL_BYTES = bytes(range(256))


async def test_what_was_put_is_read_whatever_its_bytes_are(etcd):
    async with at(etcd) as client:
        revision = await put(client, "ключ/\udcff", ALL_BYTES)
        record = await record_of(client, "ключ/\udcff")
    assert (record.key, record.value, record.lease) == ("ключ/\udcff", ALL_BYTES, 0)
    assert record.modified == revision


async def test_an_empty_value_is_a_record_and_a_missing_key_is_none(etcd):
    async with at(etcd) as client:
        await put(client, "here", b"")
        assert await value_of(client, "here") == b""
        assert await value_of(client, "missing") is None


async def test_what_has_changed_since_a_revision_is_read_and_all_is_counted(etcd):
    async with at(etcd) as client:
        await put(client, "a/1", b"x")
        revision = await put(client, "a/2", b"y")
        await put(client, "a/3", b"z")
        answer = await client.read(Get(Prefix("a/"), since=revision))
    assert [one.key for one in answer.got[0].records] == ["a/2", "a/3"]
    assert answer.got[0].count == 3


async def test_several_ranges_are_read_at_one_revision(etcd):
    async with at(etcd) as client:
        await client.transact(
            Transaction(then=(Put("a/1", b"x"), Put("a/2", b"yy"), Put("b", b"")))
        )
        answer = await client.read(
            Get(Prefix("a/")),
            Get(Prefix("a/"), only_count=True),
            Get(Prefix("")),
            Get(Key("a/")),
        )
    whole, count, everything, nothing = answer.got
    assert [(one.key, one.value) for one in whole.records] == [("a/1", b"x"), ("a/2", b"yy")]
    assert (whole.count, count.count, count.records) == (2, 2, ())
    assert [one.key for one in everything.records] == ["a/1", "a/2", "b"]
    assert (nothing.one, nothing.count) == (None, 0)
    assert {one.modified for one in everything.records} == {answer.revision}


async def test_keys_below_a_prefix_are_named_without_it_in_all_that_is_asked(etcd):
    async with at(etcd) as client:
        below = client.below("a/").below("b/")
        await put(client, "a/b", b"a neighbour")
        revision = await put(below, "1", b"x")
        assert await value_of(client, "a/b/1") == b"x"
        await below.transact(Transaction((Equals("1", b"x"), Absent("2")), (Put("2", b"y"),)))
        answer = await below.read(Get(Prefix("")), Get(Key("2")))
        assert [one.key for one in answer.got[0].records] == ["1", "2"]
        assert [one.value for one in answer.got[1].records] == [b"y"]
        async with below.watch(Key("1"), Prefix("3/"), revision=revision + 2) as watch:
            await anext(watch)
            await put(client, "a/b/3/4", b"")
            assert await anext(watch) == revision + 2
        await below.transact(Transaction(then=(Delete("1"),)))
        assert await value_of(client, "a/b/1") is None
        assert await value_of(client, "a/b") == b"a neighbour"


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        (Equals("here", b"value"), True),
        (Equals("here", b"other"), False),
        (Equals("missing", b""), False),
        (Absent("missing"), True),
        (Absent("here"), False),
    ],
)
async def test_a_compare_decides_whether_anything_is_done(etcd, compare, holds):
    async with at(etcd) as client:
        await put(client, "here", b"value")
        answer = await client.transact(
            Transaction(
                (Equals("here", b"value"), compare),
                then=(Put("taken", b"then"), Get(Key("taken"))),
            )
        )
        taken = await value_of(client, "taken")
    assert answer.succeeded is holds
    assert taken == (b"then" if holds else None)
    assert [got.one.value for got in answer.got] == ([b"then"] if holds else [])


@pytest.mark.parametrize(
    ("compare", "later", "holds"),
    [
        (partial(ModifiedAt, "here"), 0, True),
        (partial(ModifiedAt, "here"), 1, False),
        (partial(ModifiedAt, "missing"), 0, False),
        (partial(NotSince, Key("here")), 0, False),
        (partial(NotSince, Key("here")), 1, True),
        (partial(NotSince, Key("missing")), 0, True),
        (partial(NotSince, Prefix("he")), 0, False),
        (partial(NotSince, Prefix("he")), 1, True),
        (partial(NotSince, Prefix("no")), 0, True),
    ],
)
async def test_revisions_are_compared_and_what_is_done_otherwise_is_answered(
    etcd, compare, later, holds
):
    """``later`` than the last put of "here", which "hello" follows."""
    async with at(etcd) as client:
        await put(client, "hello", b"old")
        revision = await put(client, "here", b"value")
        change = Transaction(
            (compare(revision + later),),
            then=(Get(Key("here"), only_count=True),),
            otherwise=(Get(Key("here")), Get(Key("missing"))),
        )
        answer = await client.transact(change)
    assert answer.succeeded is holds
    found = [tuple(one.value for one in got.records) for got in answer.got]
    assert found == ([()] if holds else [(b"value",), ()])


async def test_one_key_is_deleted(etcd):
    async with at(etcd) as client:
        await client.transact(Transaction(then=(Put("a/1", b""), Put("a/2", b""), Put("a", b""))))
        await client.transact(Transaction(then=(Delete("a"),)))
        answer = await client.read(Get(Prefix("a")))
        assert [one.key for one in answer.got[0].records] == ["a/1", "a/2"]


async def test_a_lease_has_the_id_of_ones_choice_and_a_second_grant_is_no_error(etcd):
    async with at(etcd) as client:
        await client.grant(LEASE, MINUTE)
        await put(client, "held", b"", LEASE)
        await client.grant(LEASE, 2 * MINUTE)
        assert await client.keep_alive(LEASE) == MINUTE
        assert (await record_of(client, "held")).lease == LEASE


async def test_a_lease_that_ends_takes_its_keys_with_it(etcd):
    async with at(etcd) as client:
        await client.grant(7, MINUTE)
        await put(client, "held", b"", 7)
        etcd.control("lease", "revoke", "7")
        assert await value_of(client, "held") is None
        assert await client.keep_alive(7) is None


async def test_a_put_without_a_lease_detaches_the_key(etcd):
    async with at(etcd) as client:
        await client.grant(7, MINUTE)
        await put(client, "held", b"", 7)
        await put(client, "held", b"")
        etcd.control("lease", "revoke", "7")
        assert await value_of(client, "held") == b""


async def test_an_unknown_lease_is_an_error_and_no_lost_compare(etcd):
    async with at(etcd) as client:
        with pytest.raises(LeaseNotFound, match=r"nothing was written to etcd: .*lease not found"):
            await client.transact(Transaction(then=(Put("a", b""), Put("b", b"", 99))))
        assert (await client.read(Get(Prefix("")))).got[0].count == 0


async def test_as_many_operations_are_sent_as_etcd_takes_and_no_more(etcd):
    most = tuple(Put(f"{number}", b"") for number in range(MOST_OPERATIONS))
    async with at(etcd) as client:
        absent = tuple(Absent(one.key) for one in most)
        assert (await client.transact(Transaction(absent, most))).succeeded
        one_more = (*most, Put("one more", b""))
        with pytest.raises(TooManyOperations, match=r"at most 128 .* found 129"):
            await client.transact(Transaction(then=one_more))
        with pytest.raises(TooManyOperations):
            await client.transact(Transaction((*absent, Absent("one more"))))


async def test_what_etcd_refuses_is_told_in_its_words(etcd):
    async with at(etcd) as client:
        with pytest.raises(Refused, match="etcd refuses the request: duplicate key given in txn"):
            await client.transact(Transaction(then=(Put("a", b"1"), Put("a", b"2"))))


async def test_a_large_value_is_read_whole(etcd):
    value = ALL_BYTES * 4 * 1024
    async with at(etcd) as client:
        await put(client, "large", value)
        assert await value_of(client, "large") == value


async def test_etcd_listens_on_ipv6(etcd_server):
    async with at(etcd_server(host="::1")) as client:
        await put(client, "a", b"b")
        assert await value_of(client, "a") == b"b"


async def test_one_connection_serves_many_requests(etcd):
    async with in_front_of(etcd) as relay, at(relay.url) as client:
        for number in range(5):
            await put(client, "a", b"%d" % number)
        await client.grant(7, MINUTE)
        await client.keep_alive(7)
    assert relay.connections == 1


async def test_a_client_is_told_later_where_etcd_is_and_its_errors_say_whose_it_is(etcd_server):
    one, other = etcd_server(), etcd_server()
    async with etcd_client(Access(())) as client:
        with pytest.raises(Unreachable, match="no etcd answers"):
            await value_of(client, "a")
        client.move(one.endpoint)
        await put(client, "a", b"one")
        async with client.watch(Key("a"), revision=1) as watch:
            client.move(replace(other.endpoint, whose="the other"))
            with anyio.fail_after(20):
                async for _ in watch:  # it ends
                    pass
        assert await value_of(client, "a") is None
        other.kill()
        with pytest.raises(Unreachable, match=rf"{other.url} \(the other\): connection refused"):
            await value_of(client, "a")
