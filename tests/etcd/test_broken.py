"""An etcd that is frozen, killed or no etcd at all: an error in time, with its reason."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.etcd.failures import MalformedAnswer, Refused, Unreachable
from ascend_supervisor.etcd.values import Get, Key, Put, Transaction
from tests.etcd.asking import SHORT, at, put, value_of
from tests.etcd.listeners import answering, http, in_front_of
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
HTML = b"<html><body>It works!</body></html>"


def nobody() -> str:
    """A URL where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


async def test_where_nobody_listens_each_endpoint_has_its_reason():
    one, other = nobody(), nobody()
    async with at(one, other) as client:
        with pytest.raises(Unreachable) as raised:
            await put(client, "a", b"")
    refused = f"{one}: connection refused; {other}: connection refused"
    assert str(raised.value) == f"no etcd answers: {refused}"
    assert not raised.value.may_have_happened


async def test_a_host_without_an_address_is_named():
    async with at("http://nowhere.invalid:2379") as client:
        with pytest.raises(Unreachable, match=r"nowhere.invalid:2379: its name has no address \("):
            await client.keep_alive(7)


async def test_a_frozen_etcd_is_given_up_in_time_and_asked_again_after_its_thaw(etcd):
    async with at(etcd) as patient, at(etcd, deadline=SHORT) as client:
        await put(patient, "a", b"before")
        etcd.freeze()
        with pytest.raises(Unreachable, match=f"{etcd.url}: no answer within 1 s"):
            await value_of(client, "a")
        with pytest.raises(Unreachable) as raised:
            await put(client, "a", b"during")
        assert raised.value.may_have_happened
        etcd.thaw()
        await put(patient, "b", b"after")
        assert await value_of(patient, "b") == b"after"


async def test_a_killed_etcd_that_starts_again_still_has_what_was_put(etcd):
    async with at(etcd) as client:
        await client.grant(7, 60)
        await put(client, "a", b"kept", 7)
        etcd.kill()
        with pytest.raises(Unreachable, match="connection refused"):
            await value_of(client, "a")
        etcd.start()
        assert await value_of(client, "a") == b"kept"
        assert await client.keep_alive(7) == 60


async def test_a_wiped_etcd_has_lost_keys_and_leases(etcd):
    async with at(etcd) as client:
        await client.grant(7, 60)
        await put(client, "a", b"lost", 7)
        etcd.wipe()
        assert await value_of(client, "a") is None
        assert await client.keep_alive(7) is None


async def test_the_next_endpoint_is_asked_and_stays_the_first(etcd):
    async with answering(b"", hold=True) as silent, at(silent.url, etcd, deadline=10.0) as client:
        assert await value_of(client, "a") is None
        assert silent.connections == 1
        for _ in range(3):
            await put(client, "a", b"")
        assert silent.connections == 1


async def test_an_endpoint_that_the_caller_gave_up_is_not_the_next_one(etcd):
    async with answering(b"", hold=True) as silent, at(silent.url, etcd) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(value_of, client, "a")
            await silent.asked.wait()
            tasks.cancel_scope.cancel()
        await put(client, "a", b"b")
        assert await value_of(client, "a") == b"b"
    assert silent.connections == 1


async def test_a_transaction_that_may_have_been_done_is_not_sent_again(etcd):
    async with answering(b"") as closing, at(closing.url, etcd) as client:
        with pytest.raises(Unreachable) as raised:
            await put(client, "a", b"twice?")
        assert raised.value.may_have_happened
        assert etcd.url not in str(raised.value)
        assert await value_of(client, "a") is None


async def test_a_transaction_that_was_never_sent_goes_to_the_next_endpoint(etcd):
    async with at(nobody(), etcd) as client:
        await put(client, "a", b"sent")
        assert await value_of(client, "a") == b"sent"


@pytest.mark.parametrize(
    ("reply", "hold", "reason"),
    [
        (b"", True, "no answer within 1 s"),
        (b"", False, "it ended the connection before its answer was complete"),
        (http("200 OK", b"{}")[:-1], True, "no answer within 1 s"),
        (http("200 OK", b"{}")[:-1], False, "it ended the connection before its answer"),
        (http("200 OK", b"{}")[:20], False, "it ended the connection before its answer"),
        (http("503 Service Unavailable", HTML), False, "HTTP status 503 with '<html><body>It wo"),
        (http("502 Bad Gateway", b""), False, "HTTP status 502 with nothing"),
        (
            http("503 Service Unavailable", b'{"code":14,"message":"etcdserver: no leader"}'),
            False,
            "no leader",
        ),
    ],
)
async def test_no_whole_answer_is_unreachable(reply, hold, reason):
    async with answering(reply, hold=hold) as silent, at(silent.url, deadline=SHORT) as client:
        with pytest.raises(Unreachable) as raised:
            await client.read(Get(Key("a")))
        assert str(raised.value).startswith(f"no etcd answers: {silent.url}: {reason}")
        assert not raised.value.may_have_happened
        with pytest.raises(Unreachable) as raised:
            await client.transact(Transaction(then=(Put("a", b""),)))
        assert raised.value.may_have_happened


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (http("200 OK", HTML), r"its answer is not etcd's \(JSON is malformed"),
        (http("200 OK", b'{"header":{}}'), "a transaction without compares did not succeed"),
        (http("200 OK", b'{"header":{},"succeeded":true}'), "expected 1 responses of a .* found 0"),
        (http("200 OK", b"[1]"), r"Expected `object`, got `array`"),
        (http("200 OK", b'{"header":{"revision":"x"}}'), r"at `\$.header.revision`"),
        (http("404 Not Found", b"Not Found"), "HTTP status 404 with 'Not Found'; see whether this"),
        (http("302 Found", b""), "HTTP status 302 with nothing; see whether this is a client"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "it does not speak HTTP"),
    ],
)
async def test_an_answer_that_is_not_etcds_is_malformed(reply, reason):
    async with answering(reply) as strange, at(strange.url) as client:
        with pytest.raises(MalformedAnswer, match=reason) as raised:
            await client.read(Get(Key("a")))
    assert str(raised.value).startswith(f"expected an answer of etcd's JSON gateway: {strange.url}")


async def test_an_answer_that_is_too_large_is_given_up(etcd):
    async with at(etcd, most_bytes=100_000) as client:
        await put(client, "large", b"x" * 100_000)
        with pytest.raises(MalformedAnswer, match=r"its answer has more than 0.0954 MiB: see what"):
            await value_of(client, "large")


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "br", "identity, gzip"])
@pytest.mark.parametrize("status", ["200 OK", "503 Service Unavailable"])
async def test_an_answer_that_is_encoded_is_refused_unread(encoding, status):
    """4.8 kB that were packed twice are 3 GB."""
    packed = gzip.compress(gzip.compress(bytes(50_000_000)))
    coded = f"{status}\r\nContent-Encoding: {encoding}"
    async with answering(http(coded, packed)) as strange, at(strange.url) as client:
        with pytest.raises(MalformedAnswer, match=rf"it is encoded \({encoding}\), which was not"):
            await client.read(Get(Key("a")))
        with pytest.raises(MalformedAnswer, match="it is encoded"):
            async with client.watch(Key("a"), revision=1):
                pass


async def test_an_answer_that_is_announced_as_too_large_is_not_waited_for():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 70000000\r\n\r\n"
    async with answering(head, hold=True) as strange, at(strange.url) as client:
        with pytest.raises(MalformedAnswer, match="more than 64 MiB"):
            await client.read(Get(Key("a")))


async def test_an_encoding_that_changes_nothing_is_none():
    plain = http(
        "200 OK\r\nContent-Encoding: identity", b'{"header":{"revision":"3"},"succeeded":true}'
    )
    async with answering(plain) as one, at(one.url) as client:
        assert (await client.transact(Transaction())).revision == 3


PUTS = """
import asyncio, sys
from tests.etcd.asking import at, put
async def run():
    async with at(sys.argv[1]) as client: await put(client, "a", b"")
asyncio.run(run())
"""


async def test_a_proxy_of_the_environment_is_not_used(etcd):
    async with answering(http("503 Service Unavailable", b"")) as proxy:
        names = ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy")
        environ = {**os.environ, **dict.fromkeys(names, proxy.url)}
        words = [sys.executable, "-c", PUTS, etcd.url]
        await anyio.run_process(words, env=environ, cwd=ROOT, stderr=None)
    assert proxy.connections == 0


async def test_requests_go_on_after_one_was_cancelled(etcd):
    async with in_front_of(etcd) as relay, at(relay.url) as client:
        await put(client, "a", b"b")
        etcd.freeze()
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(value_of, client, "a")
            while relay.connections < 20:
                await asyncio.sleep(0.005)
            tasks.cancel_scope.cancel()
        etcd.thaw()
        assert await value_of(client, "a") == b"b"


async def test_nothing_is_refused_where_only_one_endpoint_refuses():
    async with answering(http("200 OK", HTML)) as strange, at(strange.url, nobody()) as client:
        with pytest.raises(Unreachable, match=r"not etcd's .*; .*connection refused") as raised:
            await value_of(client, "a")
    assert not isinstance(raised.value, Refused)
