"""A request to endpoints that answer well, badly, or not at all."""

from __future__ import annotations

import ssl
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.alerts.post import BODY_SECONDS, Answered, PostFailed, post
from ascend_supervisor.settings.alert_options import read_webhooks
from tests.alerts.endpoints import answering, closing, endpoint, flooding
from tests.etcd.listeners import answering as answering_with
from tests.etcd.servers import make_tls
from tests.ports import free_port


async def posted(
    url: str, trust: ssl.SSLContext | None = None, body_seconds: float = BODY_SECONDS
) -> Answered:
    (webhook,) = read_webhooks(url)
    with anyio.fail_after(30):
        return await post(webhook, b'{"a":"\xc3\xa4"}', trust, body_seconds=body_seconds)


async def failure(url: str, trust: ssl.SSLContext | None = None) -> str:
    with pytest.raises(PostFailed) as raised:
        await posted(url, trust)
    return str(raised.value)


async def test_the_body_arrives_at_the_path_with_its_query():
    with endpoint(answering(200, b"ok")) as one:
        assert await posted(one.url) == (200, b"ok")
    assert one.requests == [("/hook/secret?token=abc", {"a": "ä"})]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, b"ok")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n",
            (200, b"ok!"),
        ),
    ],
)
async def test_a_complete_answer_is_not_waited_for_any_longer(reply, expected):
    async with answering_with(reply, hold=True) as one:
        assert await posted(f"{one.url}/x", body_seconds=3600.0) == expected


async def test_an_answer_that_ends_with_its_connection():
    async with answering_with(b"HTTP/1.0 200 OK\r\n\r\nok") as one:
        assert await posted(one.url) == (200, b"ok")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\nContent-"])
async def test_an_answer_that_is_cut_short_is_none(reply):
    async with answering_with(reply) as one:
        told = await failure(one.url)
        assert told == "it ended the connection before its answer was complete"


async def test_what_speaks_something_else_is_told():
    async with answering_with(b"220 smtp ready\r\n\r\n") as one:
        assert await failure(one.url) == "it does not speak HTTP"


async def test_an_answer_without_end_is_read_as_far_as_16_kib():
    with endpoint(flooding) as one:
        status, body = await posted(one.url)
    assert status == 200
    assert len(body) < 32 * 1024


async def test_a_redirect_is_not_followed():
    with endpoint(answering(200)) as other:
        with endpoint(answering(307, Location=other.url)) as one:
            assert await posted(one.url) == (307, b"")
        assert other.requests == []


async def test_nobody_there_and_no_such_name():
    assert await failure(f"http://127.0.0.1:{free_port()}/x") == "connection refused"
    assert (await failure("http://no-such-host.invalid/x")).startswith("its name has no address (")
    with endpoint(closing) as one:
        assert "it ended the connection" in await failure(one.url)


async def test_a_certificate_is_accepted_if_it_is_of_a_trusted_ca_and_for_the_host(tmp_path: Path):
    right, wrong = (
        make_tls(tmp_path / name, name) for name in ("IP:127.0.0.1", "DNS:elsewhere.example")
    )
    trusts = []
    for tls in (right, wrong):
        trust = ssl.create_default_context(cafile=tls.ca)
        trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
        trusts.append(trust)
    with endpoint(answering(200, b"ok"), right) as one:
        assert await posted(one.url, trusts[0]) == (200, b"ok")
        told = await failure(one.url, ssl.create_default_context())
        assert told.startswith("its certificate is not accepted: ")
    with endpoint(answering(200, b"ok"), wrong) as one:
        told = await failure(one.url, trusts[1])
        assert told.startswith("its certificate is not accepted: IP address mismatch")
        assert one.requests == []


async def test_tls_where_there_is_none_is_told():
    with endpoint(answering(200)) as one:
        url = one.url.replace("http:", "https:")
        assert await failure(url, ssl.create_default_context()) in {
            "TLS failed (wrong version number)",
            "TLS failed (record layer failure)",
        }
