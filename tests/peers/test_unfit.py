"""A server of several that is not fit for the job."""

from __future__ import annotations

from tests.peers.servers import Job

SICK = ("--server-check", "sh -c 'echo NPU 3 fails; exit 1'")


def test_without_a_spare_the_job_ends_and_all_servers_say_why(spared: Job):
    healthy, sick = spared.start(0), spared.start(1, *SICK)
    assert (healthy.end(), sick.end()) == (69, 69)
    for server in (healthy, sick):
        reason = server.events[-1]["reason"]
        assert "this server is not fit for the job: --server-check: found that sh exited" in reason
        assert server.all("restart.scheduled") == []
    assert sick.all("process.started") == []
