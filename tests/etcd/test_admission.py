"""Users, passwords and TLS at a real etcd."""

from __future__ import annotations

import asyncio
import ssl

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.connection import context_of
from ascend_supervisor.etcd.failures import Refused, Unreachable
from ascend_supervisor.etcd.values import Key, Prefix
from tests.etcd.asking import SHORT, at, endpoints, login, put, value_of
from tests.etcd.listeners import Listener, answering, http, listening
from tests.etcd.servers import ROOT_PASSWORD, EtcdServer, make_tls, with_dates
from tests.running import wait_until

SECRET = "s3cret, wíth ünusual: characters"  # noqa: S105


@pytest.fixture
def guarded(etcd_server):
    """It asks for users, and its tokens are valid for a second or two."""
    server = etcd_server(arguments=["--auth-token-ttl=1", "--log-level=info"])
    server.admit("bob", SECRET, "ours/")
    return server


@pytest.fixture
def secured(etcd_server, tmp_path):
    tls = make_tls(tmp_path / "tls", "IP:127.0.0.1")
    return etcd_server(tls=tls), tls.ca.read_text()


async def test_a_user_with_a_password_is_served(guarded):
    async with at(guarded, login=login("bob", SECRET)) as client:
        await client.grant(7, 60)
        await put(client, "ours/a", b"b", 7)
        assert await value_of(client, "ours/a") == b"b"
        async with client.watch(Prefix("ours/"), revision=1) as watch:
            assert await anext(watch)
        assert await client.keep_alive(7) == 60


@pytest.mark.parametrize("after", ["a while", "a restart"])
async def test_a_token_that_has_expired_is_renewed(guarded, after):
    async with at(guarded, login=login("bob", SECRET)) as client:
        await put(client, "ours/a", b"before")
        token = client._asking._token
        if after == "a restart":
            guarded.stop()
            guarded.start()
        else:
            await asyncio.to_thread(wait_until, lambda: is_forgotten(guarded, token))
        async with client.watch(Key("ours/a"), revision=1) as watch:
            assert await anext(watch)
        assert client._asking._token != token
        renewed = client._asking._token
        await asyncio.to_thread(wait_until, lambda: is_forgotten(guarded, renewed))
        await put(client, "ours/a", b"after")
        assert await value_of(client, "ours/a") == b"after"


def is_forgotten(server: EtcdServer, token: str) -> bool:
    """Without asking: that would make the token live longer."""
    lines = [line for line in server.log.splitlines() if token in line]
    return any("deleted a simple token" in line for line in lines)


async def test_requests_that_wait_for_a_token_do_not_wait_one_after_another(guarded):
    failed = []

    async def ask(client: Etcd) -> None:
        with pytest.raises(Unreachable) as raised:
            await value_of(client, "ours/a")
        failed.append(raised.value)

    guarded.freeze()
    async with at(guarded, deadline=SHORT, login=login("bob", SECRET)) as client:
        with anyio.fail_after(20 * SHORT):  # one after another: 50 s
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(ask, client)
    assert len(failed) == 50


async def test_a_wrong_password_is_refused_and_not_shown(guarded):
    async with at(guarded, login=login("bob", "wr0ng")) as client:
        with pytest.raises(Refused, match="refuses the user 'bob': it does not know") as raised:
            await value_of(client, "ours/a")
    assert "wr0ng" not in str(raised.value)


async def test_without_a_user_it_is_said_that_one_is_needed(guarded):
    async with at(guarded) as client:
        with pytest.raises(Refused, match="without a user: give a user and a password"):
            await value_of(client, "ours/a")
        with pytest.raises(Refused, match="without a user: give a user and a password"):
            async with client.watch(Key("ours/a"), revision=1):
                pass


async def test_keys_of_others_are_refused(guarded):
    async with at(guarded, login=login("bob", SECRET)) as client:
        with pytest.raises(Refused, match="the user 'bob': permission denied; give its role"):
            await put(client, "others", b"")
        with pytest.raises(Refused, match="permission denied"):
            async with client.watch(Key("others"), revision=1):
                pass


async def test_a_user_is_no_error_where_etcd_asks_for_none(etcd):
    async with at(etcd, login=login("bob", SECRET)) as client:
        await put(client, "a", b"b")
        etcd.admit("bob", SECRET, "a")
        assert await value_of(client, "a") == b"b"


async def test_a_refusal_is_final_at_the_first_endpoint(guarded):
    async with answering(b"") as other, at(guarded, other.url) as client:
        with pytest.raises(Refused):
            await value_of(client, "a")
    assert other.connections == 0


def test_a_password_is_not_printed_by_accident():
    assert SECRET not in repr(login("bob", SECRET)) + str(login("bob", SECRET).password)


async def test_tls_with_the_ca_of_the_server(secured):
    server, ca = secured
    async with at(server, ca=ca) as client:
        await put(client, "a", b"b")
        assert await value_of(client, "a") == b"b"
        async with client.watch(Key("a"), revision=1) as watch:
            assert await anext(watch)


async def test_users_and_tls_together(secured):
    server, ca = secured
    server.admit("bob", SECRET, "ours/")
    async with at(server, ca=ca, login=login("bob", SECRET)) as client:
        await put(client, "ours/a", b"b")
    assert server.control("get", "ours/a", "--print-value-only", user=f"root:{ROOT_PASSWORD}")


UNKNOWN_CA = r"its certificate is not signed by a CA that is trusted here: give the CA .*between"


async def test_a_server_of_another_ca_is_refused(secured, tmp_path):
    server, _ = secured
    other = make_tls(tmp_path / "other", "IP:127.0.0.1").ca.read_text()
    for ca in (other, None):
        async with at(server, ca=ca) as client:
            with pytest.raises(Refused, match=f"{server.url}: {UNKNOWN_CA}$"):
                await put(client, "a", b"")


async def test_a_certificate_for_another_host_is_refused(etcd_server, tmp_path):
    tls = make_tls(tmp_path / "tls", "DNS:elsewhere.example")
    async with at(etcd_server(tls=tls), ca=tls.ca.read_text()) as client:
        with pytest.raises(Refused, match="does not hold this host: write one that it holds"):
            await put(client, "a", b"")


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        ("20200101000000Z", "20200201000000Z", "has expired; {now}: renew the certificate"),
        ("20490101000000Z", "20491231000000Z", "is not valid yet; {now}: set the clocks"),
    ],
)
async def test_a_certificate_that_is_out_of_date_is_refused_with_the_time_here(
    etcd_server, tmp_path, begin, end, expected
):
    tls = with_dates(make_tls(tmp_path / "tls", "IP:127.0.0.1"), begin, end)
    now = r"the clock here says \d{4}-\d\d-\d\d \d\d:\d\d UTC"
    async with at(etcd_server(tls=tls), ca=tls.ca.read_text()) as client:
        with pytest.raises(Refused, match=f"its certificate {expected.format(now=now)}"):
            await put(client, "a", b"")


_EMPTY = b'{"header":{"revision":"1"},"succeeded":true,"responses":[{"response_range":{}}]}'


async def test_the_scheme_is_not_doubted_where_it_has_worked():
    async def serve_once(stream: SocketStream) -> None:
        received = BufferedByteReceiveStream(stream)
        await received.receive_until(b"\r\n\r\n", 1 << 16)
        if listener.connections == 1:
            await stream.send(http("200 OK", _EMPTY))

    async with listening(serve_once) as listener, at(listener.url) as client:
        assert await value_of(client, "a") is None
        with pytest.raises(Unreachable, match=r"before its answer was complete$"):
            await value_of(client, "a")


async def test_the_wrong_scheme_is_named(secured, etcd_server):
    server, ca = secured
    async with at(server.url.replace("https", "http")) as client:
        with pytest.raises(Unreachable, match="etcd does so if it serves only https://"):
            await put(client, "a", b"")
    in_clear = http("400 Bad Request", b"Client sent an HTTP request to an HTTPS server.\n")
    async with answering(in_clear) as proxy, at(proxy.url) as client:
        with pytest.raises(Refused, match="it speaks TLS, so write https://"):
            await put(client, "a", b"")
    async with at(etcd_server().url.replace("http", "https"), ca=ca) as client:
        # What it says in clear may get lost when it closes the connection.
        with pytest.raises((Refused, Unreachable), match=r"write http://|serves only http://"):
            await put(client, "a", b"")


async def test_one_that_asks_for_client_certificates_is_refused(tmp_path):
    """It is no etcd: that closes the connection, and its alert gets lost if we were quicker."""
    tls = make_tls(tmp_path / "tls", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    context.load_verify_locations(tls.ca)
    context.verify_mode = ssl.CERT_REQUIRED

    async def demand(stream: SocketStream) -> None:
        received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(received, to_send, server_side=True)
        while True:
            try:
                server.do_handshake()
            except ssl.SSLWantReadError:
                await stream.send(to_send.read())
                received.write(await stream.receive())
            except ssl.SSLError:
                break
        await stream.send(to_send.read())
        await stream.send_eof()
        async for _ in stream:
            pass

    async with listening(demand) as strict, at(secure(strict), ca=tls.ca.read_text()) as client:
        with pytest.raises(Refused, match=r"it asks for a client certificate, .*use a user"):
            await put(client, "a", b"")


async def test_one_that_closes_the_connection_of_who_has_no_certificate_is_explained(
    etcd_server, tmp_path
):
    tls = make_tls(tmp_path / "tls", "IP:127.0.0.1")
    strict = etcd_server(tls=tls, arguments=["--client-cert-auth", f"--trusted-ca-file={tls.ca}"])
    for _ in range(5):  # the alert of etcd may get lost when it closes the connection
        async with at(strict, ca=tls.ca.read_text()) as client:
            with pytest.raises((Refused, Unreachable), match="it asks for a client certificate"):
                await put(client, "a", b"")


@pytest.mark.parametrize(
    ("ca", "found"),
    [
        ("", "none"),
        ("no certificate", "none"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "one that is damaged"),
        ("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----", "one that is damaged"),
    ],
)
async def test_a_ca_that_is_none_is_refused(ca, found):
    with pytest.raises(Refused, match=rf"read: expected PEM, .*-----, found {found}$"):
        async with at("https://127.0.0.1:1", ca=ca):
            pass


def secure(listener: Listener) -> str:
    return listener.url.replace("http", "https")


async def test_a_handshake_that_is_never_answered_or_cut_is_unreachable():
    async def hang_up(stream):
        await stream.receive(1)

    async with answering(b"", hold=True) as silent, at(secure(silent), deadline=SHORT) as client:
        with pytest.raises(Unreachable, match=r"no connection within 0\.5 s") as raised:
            await put(client, "a", b"")
    assert not raised.value.may_have_happened
    async with listening(hang_up) as rude, at(secure(rude)) as client:
        with pytest.raises(Unreachable, match="ended the connection"):
            await put(client, "a", b"")


def test_without_tls_no_certificates_are_loaded():
    assert context_of(Access(endpoints("http://a:1"))).cert_store_stats()["x509"] == 0
    trusting = context_of(Access(endpoints("http://a:1", "https://b:1")))
    assert trusting.verify_mode is ssl.CERT_REQUIRED
    assert trusting.check_hostname


def test_a_ca_made_by_hand_is_enough_on_every_python(tmp_path):
    ca = make_tls(tmp_path / "tls", "IP:127.0.0.1").ca.read_text()
    context = context_of(Access(endpoints("https://a:1"), ca=ca))
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
