"""TensorFlow's way on two servers: parameter servers that never end, workers that do."""

from __future__ import annotations

import sys

from tests.ports import free_port

SCRIPT = """
import argparse, os, socket, sys, time
parser = argparse.ArgumentParser()
for name in ("ps_hosts", "worker_hosts", "job_name"):
    parser.add_argument(f"--{name}")
parser.add_argument("--task_index", type=int)
told = parser.parse_args()
servers = [(host, int(port)) for host, port in
           (place.rsplit(":", 1) for place in told.ps_hosts.split(","))]
if told.job_name == "ps":
    listener = socket.create_server(servers[told.task_index])
    while True:
        client, _ = listener.accept()
        client.sendall(b"%d" % told.task_index)
        client.close()
heard = []
for place in servers:
    while True:
        try:
            with socket.create_connection(place) as server:
                heard.append(server.recv(9).decode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print("worker", told.task_index, "heard", *heard, flush=True)
time.sleep(2)  # the other worker needs our parameter server, too
sys.exit(int(os.environ.get("END", "0")))
"""


def start(supervised, tmp_path, **environ: str):
    script = tmp_path / "boot.py"
    script.write_text(SCRIPT)
    places = [f"127.0.0.1:{free_port()}" for _ in range(4)]
    return [
        supervised(
            *("--method", "tensorflow", "--release-delay", "0", "--grace", "5"),
            *("--", sys.executable, str(script)),
            root=tmp_path / f"server-{index}",
            environ={
                "MA_NUM_HOSTS": "2",
                "VC_TASK_INDEX": str(index),
                "TF_PS_HOSTS": ",".join(places[:2]),
                "TF_WORKER_HOSTS": ",".join(places[2:]),
                **environ,
            },
        )
        for index in range(2)
    ]


def test_the_job_is_done_when_the_workers_are(supervised, tmp_path):
    first, second = start(supervised, tmp_path)
    for index, job in enumerate((first, second)):
        job.wait_for("output", rank=index, msg=f"worker {index} heard 0 1")
        job.wait_for("process.exited", program=f"ps {index}", signal="SIGTERM")
    assert [first.end(), second.end()] == [0, 0]
    assert not first.survivors() + second.survivors()


def test_a_worker_that_fails_ends_its_parameter_server(supervised, tmp_path):
    jobs = start(supervised, tmp_path, END="6")
    assert [job.end() for job in jobs] == [6, 6]
    assert not jobs[0].survivors() + jobs[1].survivors()
