"""How the places of an etcd are written, and what is refused."""

from __future__ import annotations

import pytest

from ascend_supervisor.etcd.access import Endpoint, read_endpoints, shown_endpoints


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("http://etcd:2379", [Endpoint("etcd", 2379, is_tls=False)]),
        ("https://10.0.0.1:2379/", [Endpoint("10.0.0.1", 2379, is_tls=True)]),
        ("http://[FE80::1]:1", [Endpoint("fe80::1", 1, is_tls=False)]),
        (
            " https://a.b-c_d:1 , http://E:65535,https://a.b-c_d:1",
            [Endpoint("a.b-c_d", 1, is_tls=True), Endpoint("e", 65535, is_tls=False)],
        ),
        (["http://a:1"], [Endpoint("a", 1, is_tls=False)]),
    ],
)
def test_endpoints_are_urls_with_commas_between(text, endpoints):
    assert list(read_endpoints(text)) == endpoints


def test_an_endpoint_is_shown_as_its_url():
    for url in ("http://a:1", "https://[::1]:2379"):
        assert [str(one) for one in read_endpoints(url)] == [url]


@pytest.mark.parametrize(
    "found",
    [
        "",
        "a:2379",
        "ftp://a:1",
        "http://a",
        "http://a:0",
        "http://a:65536",
        "http://a:x",
        "http://:1",
        "http://a:1/path",
        "http://a:1?query",
        "http://a:1#fragment",
        "http://a:1,",
        "http://[::1:1",
        "http://[x::1]:1",
        "http://[fe80::1%eth0]:1",
        "http://ä:1",
        "http://a b:1",
        "http://-a:1",
        "http://a\n:1",
        [],
        [1],
        7,
        None,
    ],
)
def test_anything_else_is_refused(found):
    with pytest.raises(ValueError, match=r"URLs http://HOST:PORT or https://HOST:PORT with commas"):
        read_endpoints(found)


@pytest.mark.parametrize(
    "found",
    [
        "http://bob:s3cret@a:1",
        "http://a:1,https://bob:s3c@r/e,t@b:1",
        ["http://bob:s3cret@a:1"],
        "bob:s3cret@a:1",
        "http:/bob:s3cret@a:1",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(found):
    with pytest.raises(ValueError, match="without user and password") as refused:
        read_endpoints(found)
    shown = str(refused.value) + shown_endpoints(found)
    assert "s3c" not in shown
    assert "***@" in shown


def test_what_cannot_hold_a_password_is_shown_as_it_is():
    assert shown_endpoints("a:2379") == "'a:2379'"
    assert shown_endpoints(7) == "7"
