"""An incident of a job on three servers is one message."""

from __future__ import annotations

import signal

from tests.alerts.endpoints import answering, endpoint


def test_the_server_with_the_root_cause_tells_and_the_others_do_not(job):
    with endpoint(answering(200)) as one:
        job.start_all("--restarts", "1", "--notify-url", one.url)
        job.signal_rank(2, signal.SIGUSR1)
        job.all_up(1)
        job.succeed(1)
    assert [message["kind"] for message in one.messages] == ["restarted", "ended"]
    restarted = one.messages[0]
    assert "rank 2 exited with status 7; all ranks restart in" in restarted["text"]
    assert "server-2" in restarted["log"]


def test_the_first_server_tells_of_one_that_was_lost(job):
    with endpoint(answering(200)) as one:
        servers = job.start_all("--restarts", "0", "--notify-url", one.url)
        servers[1].process.kill()
        assert servers[0].end() != 0
        assert servers[2].end() != 0
    (message,) = one.messages
    assert message["kind"] == "failed"
    assert "server 1 was lost" in message["text"]
