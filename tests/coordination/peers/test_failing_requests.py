"""Which failure is told when several kinds of requests fail."""

from __future__ import annotations

from ascend_supervisor.coordination.peers.requests import EtcdRequests


def test_the_newest_failure_is_the_trouble():
    """A kind that is not asked again keeps its old reason."""
    requests = EtcdRequests(lambda _: None)
    requests.fails("write", "it ended the connection")
    requests.fails("read", "it ended the connection")
    requests.fails("read", "connection refused")
    assert requests.trouble == "connection refused"
    requests.fails("keepalive", "no route to host")
    assert requests.trouble == "no route to host"
    requests.withdraw("keepalive")
    assert requests.trouble == "connection refused"
