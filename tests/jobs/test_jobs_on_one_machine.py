"""Two jobs on one machine, each with all of its ranks here: they do not meet each other."""

from __future__ import annotations

import json

from tests.running import python, wait_until

MEETS = """
import json, os, pathlib, socket, sys, time
rank, life = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", place[1]))
        made.listen()
        met, _ = made.accept()
        met.sendall(os.environ["JOB"].encode())
        met.recv(1)
else:
    while True:
        try:
            met = socket.create_connection(place)
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            break
    print(json.dumps([met.recv(100).decode(), place[1]]), flush=True)
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    met.close()
    sys.exit(0 if life else 3)
"""


def test_the_ranks_of_each_meet_at_a_port_of_their_own_in_every_generation(supervised, tmp_path):
    jobs = []
    for name in ("one", "other"):
        root = tmp_path / name
        root.mkdir()
        options = ("--standalone", "2", "--restarts", "1")
        jobs.append(
            supervised(
                *options, "--restart-delay", "0", *python(MEETS), root=root, environ={"JOB": name}
            )
        )
    wait_until(lambda: all(job.said(1) for job in jobs))
    for job in jobs:
        (job.root / "go").touch()
    ports = []
    for job, name in zip(jobs, ("one", "other"), strict=True):
        assert job.end() == 0, job.stderr
        told = [json.loads(line) for life in range(2) for line in job.said(1, life)]
        assert [who for who, _ in told] == [name, name]
        assert told[0] == told[1], "the same port in both generations"
        ports.append(told[0][1])
    assert len({*ports}) == 2
