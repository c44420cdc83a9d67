"""A Scheduler's pod and two Workers' pods, in networks of their own, as one job.

MindSpore's part is played by a script: the Scheduler ends when all workers have, or with 1 when it
misses one; a worker that has lost the Scheduler ends with 1. tests/e2e has the real one.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest

from tests.pods import PORT, SERVICE, mindspore_scheduler, mindspore_worker
from tests.running import Running
from tests.two_servers import in_pods, three_servers

SCRIPT = """
import os, select, socket, sys, time
place = os.environ["MS_SCHED_HOST"], int(os.environ["MS_SCHED_PORT"])
if os.environ["MS_ROLE"] == "MS_SCHED":
    listener = socket.create_server(place)
    workers = [listener.accept()[0] for _ in range(int(os.environ["MS_WORKER_NUM"]))]
    print("the scheduler has ranks", *sorted(int(worker.recv(9)) for worker in workers), flush=True)
    for worker in workers:
        worker.sendall(b"begin")
    while workers:
        for worker in select.select(workers, [], [])[0]:
            if worker.recv(9) != b"done":
                time.sleep(1)  # a connection closes before its process has ended; MindSpore is slow
                sys.exit(1)
            workers.remove(worker)
    sys.exit(0)
rank = os.environ["MS_NODE_ID"]
while True:
    try:
        scheduler = socket.create_connection(place)
        scheduler.sendall(rank.encode())
        if scheduler.recv(9) == b"begin":
            break
    except OSError:
        pass
    time.sleep(0.05)  # it does not listen yet
print("rank", rank, "begins", flush=True)
if sys.argv[1] == "end":
    scheduler.sendall(b"done")
elif sys.argv[1] == rank:
    os._exit(7)  # the interpreter's end would close the connection long before the process ends
elif not scheduler.recv(9):
    sys.exit("the scheduler is gone")
"""
Start = Callable[[str], list[Running]]


@pytest.fixture
def train(supervised, tmp_path):
    """``train(how)``: all of them "end", all "stay", or the rank of this number fails."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with three_servers(SERVICE, int(PORT)) as servers:
        own = {"MS_SCHED_HOST": servers[0].address}
        pods = [
            {**mindspore_scheduler(2, 2, npus=False), **own},
            mindspore_worker(2, 2, 0),
            mindspore_worker(2, 2, 1),
        ]

        def start(how: str) -> list[Running]:
            words = ("--restarts", "3", "--", sys.executable, str(script), how)
            return in_pods(servers, supervised, tmp_path, pods, *words, deadline=60.0)

        yield start


def begun(job: Running) -> set[str]:
    return {event["msg"] for event in job.all("output")}


def test_the_workers_of_both_pods_join_the_scheduler(train: Start):
    scheduler, *workers = train("end")
    assert [job.end() for job in (scheduler, *workers)] == [0, 0, 0]
    assert begun(scheduler) == {"the scheduler has ranks 0 1 2 3"}
    assert begun(workers[0]) == {"rank 0 begins", "rank 1 begins"}
    assert begun(workers[1]) == {"rank 2 begins", "rank 3 begins"}
    for job in (scheduler, *workers):
        assert not job.survivors()


def test_a_worker_that_fails_ends_all_pods_and_none_restarts_alone(train: Start):
    scheduler, whole, failing = train("3")
    assert [failing.end(), scheduler.end(), whole.end()] == [7, 1, 1]
    assert failing.events[-1]["root_cause"].startswith("rank 3 failed first, in generation 0")
    assert scheduler.events[-1]["root_cause"].startswith("the scheduler failed first")
    assert "the scheduler is gone" in whole.events[-1]["root_cause"]
    for job in (scheduler, whole, failing):
        assert len(job.all("generation.started")) == 1
        assert not job.survivors()


def test_a_scheduler_that_is_told_to_stop_ends_all_pods(train: Start):
    scheduler, *workers = train("stay")
    for job, rank in zip(workers, (1, 3), strict=True):
        job.wait_for("output", msg=f"rank {rank} begins")
    scheduler.send(signal.SIGTERM)
    assert scheduler.end() == 143
    assert scheduler.all("process.exited")[0]["signal"] == "SIGTERM"
    for job in workers:
        assert job.end() == 1
        assert "the scheduler is gone" in job.events[-1]["root_cause"]
        assert not job.survivors()
