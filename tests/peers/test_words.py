"""What an operator reads while a server waits for the others, or for etcd."""

from __future__ import annotations

from tests.peers.servers import FENCE, TTL, Job

HOST = "pod job-test-0"


def test_a_wait_names_the_others_and_a_second_supervisor_who_holds_its_place(job: Job):
    first = job.start(0)
    told = first.wait_for("peers.waiting", missing=[1, 2])
    assert told["lost"] == [1, 2]
    assert told["reason"].startswith(
        f"not all of them are ready: this etcd knows server 0 ({HOST}), "
    )
    assert not any(0 in event["missing"] for event in first.all("peers.waiting"))
    twin = job.start(0, place="-elsewhere")
    told = twin.wait_for("peers.waiting")
    held = "the place of server 0 is held by another supervisor, on"
    assert told["msg"].startswith(f"waiting for the servers of the job: {held} {HOST} (")
    job.etcd.kill()
    told = first.wait_for("peers.unreachable")
    assert told["msg"].endswith("; no rank starts until it answers")
    assert "https" not in told["msg"]


def test_servers_with_different_etcds_say_who_is_not_seen_at_theirs(job: Job, etcd_server):
    apart = etcd_server()
    first = job.start(0)
    second = job.start(1, "--peers", apart.url)
    for server, own, others in ((first, 0, [1, 2]), (second, 1, [0, 2])):
        told = server.wait_for("peers.waiting", missing=others)
        unseen = f"server {others[0]}, server {others[1]}"
        assert (
            f"; this etcd knows server {own} ({HOST}), but has never seen {unseen}, which may not "
            "have started, or may have another etcd (--peers) or another name of the job "
            "(--peers-job) ("
        ) in told["msg"]


def test_who_never_came_is_named_at_the_end_of_the_wait(job: Job):
    first = job.start(0, "--peers-timeout", str(FENCE + TTL + 1))
    assert first.end() == 75
    assert "has never seen server 1, server 2" in first.events[-1]["reason"]
