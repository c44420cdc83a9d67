"""A watch wakes up whoever reads, and ends when it cannot."""

from __future__ import annotations

import anyio
import pytest

from ascend_supervisor.etcd.failures import MalformedAnswer, Unreachable
from ascend_supervisor.etcd.values import Delete, Key, Prefix, Put, Transaction
from tests.etcd.asking import SHORT, at, put
from tests.etcd.listeners import answering, http, in_front_of

CREATED = b'{"result":{"header":{"revision":"5"},"created":true}}\n'
CHANGED = b'{"result":{"header":{"revision":"6"},"events":[{"kv":{"key":"YQ=="}}]}}\n'


def stream(*lines: bytes) -> bytes:
    """An answer without a length, of these lines."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b"".join(lines)


async def wake_ups(watch) -> list[int]:
    """All that are left."""
    return [revision async for revision in watch]


async def test_the_first_wake_up_comes_at_once(etcd):
    async with at(etcd) as client:
        revision = await put(client, "a", b"")
        async with client.watch(Key("a"), revision=revision + 1) as watch:
            assert await anext(watch) == revision


async def test_each_change_of_one_of_several_ranges_is_a_wake_up(etcd):
    async with at(etcd) as client:
        begin = await put(client, "a", b"")
        async with client.watch(Key("a"), Prefix("b/"), revision=begin + 1) as watch:
            await anext(watch)
            changes = [await put(client, "a", b""), await put(client, "b/1", b"")]
            await put(client, "c", b"")
            gone = await client.transact(Transaction(then=(Delete("a"),)))
            changes.append(gone.revision)
            assert [await anext(watch) for _ in changes] == changes


async def test_a_wake_up_tells_what_was_put_if_nothing_is_gone(etcd):
    async with at(etcd) as client:
        begin = await put(client, "job/a", b"0")
        job = client.below("job/")
        async with job.watch(Prefix(""), revision=begin + 1) as watch:
            await anext(watch)
            assert watch.put == ()
            both = tuple(Put(key, b"1") for key in ("a", "b"))
            await job.transact(Transaction(then=both))
            await anext(watch)
            assert [(one.key, one.value) for one in watch.put] == [("a", b"1"), ("b", b"1")]
            await job.transact(Transaction(then=(Delete("a"), Put("b", b"2"))))
            await anext(watch)
            assert watch.put == ()


async def test_what_changed_since_the_revision_is_a_wake_up_too(etcd):
    async with at(etcd) as client:
        revision = await put(client, "a", b"")
        last = await put(client, "a", b"")
        async with client.watch(Key("a"), revision=revision) as watch:
            await anext(watch)
            assert await anext(watch) == last


async def test_a_lease_that_ends_is_a_wake_up(etcd):
    async with at(etcd) as client:
        await client.grant(7, 1)
        revision = await put(client, "a", b"", 7)
        async with client.watch(Key("a"), revision=revision + 1) as watch:
            await anext(watch)
            assert await anext(watch) == revision + 1


async def test_a_watch_from_a_compacted_revision_ends(etcd):
    async with at(etcd) as client:
        first = await put(client, "a", b"1")
        last = await put(client, "a", b"2")
        etcd.control("compact", str(last))
        async with client.watch(Key("a"), Key("b"), revision=first) as watch:
            await wake_ups(watch)
        assert watch.ended_because == f"revisions below {last} were compacted"


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_watch_ends_with_its_etcd(etcd, end):
    async with at(etcd) as client:
        async with client.watch(Prefix(""), revision=1) as watch:
            await anext(watch)
            getattr(etcd, end)()
            assert await wake_ups(watch) == []
        assert watch.ended_because


async def test_a_frozen_etcd_is_watched_again_after_its_thaw(etcd):
    async with (
        at(etcd) as client,
        at(etcd, deadline=SHORT) as hasty,
        client.watch(Prefix(""), revision=1) as watch,
    ):
        await anext(watch)
        etcd.freeze()
        with pytest.raises(Unreachable):
            await put(hasty, "a", b"")
        with pytest.raises(Unreachable, match="no answer within"):
            async with hasty.watch(Key("a"), revision=1):
                pass
        etcd.thaw()
        revision = await put(client, "b", b"")
        while await anext(watch) < revision:  # what was sent before may come after it, and with it
            pass


@pytest.mark.parametrize("waits", [True, False])
async def test_a_watch_ends_when_its_endpoint_does_not_answer_a_request(etcd_server, waits):
    one, other = etcd_server(), etcd_server()
    async with at(one, other, deadline=2 * SHORT) as client:
        async with client.watch(Prefix(""), revision=1) as watch:
            await anext(watch)
            one.freeze()
            async with anyio.create_task_group() as tasks:
                if waits:
                    tasks.start_soon(wake_ups, watch)
                    await anyio.wait_all_tasks_blocked()
                await client.keep_alive(7)
            assert await wake_ups(watch) == []
        assert watch.ended_because == f"{one.url} did not answer another request"
        async with client.watch(Prefix(""), revision=1) as watch:
            await anext(watch)
            await put(client, "a", b"")
            assert await anext(watch)


async def test_a_watch_that_is_left_leaves_no_connection_behind(etcd):
    async with in_front_of(etcd) as relay, at(relay.url) as client:
        async with client.watch(Prefix(""), revision=1) as watch:
            await anext(watch)
            await put(client, "a", b"")
        assert await wake_ups(watch) == []
        await put(client, "a", b"")
    assert relay.connections == 2


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((CREATED,), "it ended the watch"),
        ((CREATED, CHANGED[:20]), "it ended the watch"),
        ((CREATED, b"<html>\n"), "its answer is not etcd's"),
        ((CREATED, b"{}\n"), "neither a result nor an error"),
        ((CREATED, b'{"error":{"message":"etcdserver: no leader"}}\n'), "no leader"),
        (
            (CREATED, b'{"result":{"header":{},"canceled":true,"cancel_reason":"why"}}\n'),
            "why",
        ),
    ],
)
async def test_a_watch_that_breaks_ends_and_knows_why(lines, reason):
    async with answering(stream(*lines)) as broken, at(broken.url) as client:
        async with client.watch(Key("a"), revision=1) as watch:
            assert await wake_ups(watch) == [5]
        assert reason in watch.ended_because


async def test_messages_that_tell_of_no_change_wake_nobody_up():
    progress = b'{"result":{"header":{"revision":"9"}}}\n'
    async with (
        answering(stream(CREATED, progress, CHANGED)) as told,
        at(told.url) as client,
        client.watch(Key("a"), revision=1) as watch,
    ):
        assert await wake_ups(watch) == [5, 6]


@pytest.mark.parametrize(
    ("reply", "hold", "error", "reason"),
    [
        (stream(), True, Unreachable, "no answer within"),
        (stream(CREATED), True, Unreachable, "no answer within"),
        (stream(), False, Unreachable, "it ended the watch"),
        (stream(b"<html>\n"), False, MalformedAnswer, "not etcd's"),
        (http("404 Not Found", b"Not Found"), False, MalformedAnswer, "HTTP status 404"),
        (b"", True, Unreachable, "no answer within"),
    ],
)
async def test_a_watch_that_is_not_confirmed_is_an_error(reply, hold, error, reason):
    async with answering(reply, hold=hold) as broken, at(broken.url, deadline=SHORT) as client:
        with pytest.raises(error, match=reason):
            async with client.watch(Key("a"), Key("b"), revision=1):
                pass
