"""What an operator reads while a server waits for the others, or for etcd."""

from __future__ import annotations

import platform

from tests.peers.servers import Job


def test_a_wait_names_the_others_and_a_second_supervisor_who_holds_its_place(job: Job):
    first = job.start(0)
    told = first.wait_for("peers.waiting", missing=[1, 2])
    assert (told["lost"], told["reason"]) == ([1, 2], "not all of them are ready")
    assert not any(0 in event["missing"] for event in first.all("peers.waiting"))
    twin = job.start(0, place="-elsewhere")
    told = twin.wait_for("peers.waiting")
    held = "the place of server 0 is held by another supervisor, on"
    assert told["msg"].startswith(f"waiting for the servers of the job: {held} {platform.node()} (")
    job.etcd.kill()
    told = first.wait_for("peers.unreachable")
    assert told["msg"].endswith("; no rank starts until it answers")
    assert "https" not in told["msg"]
