"""The main job, from outside: ranks started, watched, restarted, ended."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.rank_tables import A5, data
from tests.running import python

WAITING = "import time; print('up', flush=True); time.sleep(600)"


def test_every_rank_that_ends_with_0_gives_0(supervised):
    job = supervised("--standalone", "3", *python("print('hello')"))
    assert job.end() == 0
    assert [job.said(rank) for rank in range(3)] == [["hello"]] * 3
    assert job.events[0]["event"] == "supervisor.started"
    assert job.events[-1]["event"] == "supervisor.exited"
    assert [event["seq"] for event in job.events] == list(range(len(job.events)))


def test_the_first_failure_ends_the_others_and_is_the_exit_code(supervised):
    job = supervised(
        "--standalone",
        "3",
        *python("import os, time; os.environ['RANK'] == '1' and os._exit(7)\ntime.sleep(600)"),
    )
    assert job.end() == 7
    assert job.wait_for("process.exited", rank=1)["first_failure"]
    assert job.wait_for("process.exited", rank=0)["signal"] == "SIGTERM"
    assert "rank 1 failed first" in job.events[-1]["root_cause"]
    assert not job.survivors()


def test_a_rank_killed_by_a_signal_gives_128_and_its_number(supervised):
    job = supervised(
        "--standalone",
        "2",
        *python(
            "import os, time; os.environ['RANK'] == '1' and os.kill(os.getpid(), 9)\n"
            "time.sleep(600)"
        ),
    )
    assert job.end() == 137


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_stopping_signal_ends_the_group_and_gives_128_and_its_number(supervised, number):
    job = supervised("--standalone", "2", *python(WAITING))
    for rank in range(2):
        job.wait_for("output", rank=rank)
    job.send(number)
    assert job.end() == 128 + number
    assert job.all("generation.ended")[0]["outcome"] == "interrupted"
    assert not job.survivors()


def test_a_restart_starts_the_whole_group_again_and_counts(supervised):
    source = (
        "import os, time\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        "    os.environ['RANK'] == '0' and os._exit(1)\n"
        "    time.sleep(600)\n"
        "print('second life')"
    )
    job = supervised(
        "--standalone", "2", "--restarts", "1", "--restart-delay", "0", *python(source)
    )
    assert job.end() == 0
    assert job.said(0, 1) == job.said(1, 1) == ["second life"]
    assert job.all("restart.scheduled")[0]["restarts_left"] == 0
    assert len(job.all("generation.ended")) == 2


def test_secrets_of_command_and_environment_are_told_nowhere(supervised):
    """The rank ignores TERM, so that its command line is described as well."""
    source = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITING
    words = [*python(source), "--token=word-after-token", "https://me:in-the-address@host/"]
    environ = {"HF_TOKEN": "in-the-environment", "AWS_SECRET_ACCESS_KEY": "also-there"}
    job = supervised("--standalone", "1", "--grace", "6", *words, environ=environ)
    job.wait_for("output")
    job.send(signal.SIGTERM)
    assert "--token=***" in job.wait_for("stop.waiting")["remaining"][0]
    told = job.wait_for("supervisor.started")
    assert job.end() == 143
    assert told["command"][-2:] == ["--token=***", "https://***@host/"]
    written = [path.read_text() for path in job.root.rglob("*") if path.is_file()]
    for secret in ("word-after-token", "in-the-address", *environ.values()):
        assert not [
            text for text in [*map(str, job.events), job.stderr, *written] if secret in text
        ]


def test_no_port_is_opened(supervised):
    job = supervised("--standalone", "1", *python(WAITING))
    job.wait_for("output", msg="up")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ports = network_sockets()
        assert os.fstat(listening.fileno()).st_ino in ports
        sockets = [name for name in job.open_files if name.startswith("socket:[")]
        assert not {int(name[len("socket:[") : -1]) for name in sockets} & ports
    job.send(signal.SIGTERM)
    assert job.end() == 143


def network_sockets() -> set[int]:
    """The inodes of the sockets here that have a port."""
    tables = [Path("/proc/net", name) for name in ("tcp", "tcp6", "udp", "udp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()]
    return {int(line.split()[9]) for line in lines if line.split()[9].isdigit()}


def test_a_rank_finds_no_role_of_its_pod_in_its_environment(supervised):
    of_the_pod = {"MS_ROLE": "MS_WORKER", "MS_SCHED_PORT": "2222", "MS_ENABLE_GE": "1"}
    source = "import os; print(*[name for name in sorted(os.environ) if name.startswith('MS_')])"
    options = ("--standalone", "1", "--method", "ranktable")
    job = supervised(*options, *python(source), environ=of_the_pod)
    assert job.end() == 0
    assert job.said(0) == ["MS_ENABLE_GE"]


@pytest.mark.parametrize(
    ("known", "address", "told"),
    [({}, "None", 1), ({"MASTER_ADDR": "master.job"}, "master.job", 0)],
)
def test_on_several_servers_an_address_that_nobody_knows_is_missed_aloud(
    supervised, tmp_path, known, address, told
):
    table = tmp_path / "table.json"
    table.write_bytes(data(A5))  # it names no servers
    source = "import os; print(os.environ.get('MASTER_ADDR'))"
    job = supervised(
        *("--rank-table", str(table), "--node-rank", "1", *python(source)), environ=known
    )
    assert job.end() == 0
    ranks = job.wait_for("rank_table.ready")["local_ranks"]
    assert [job.said(rank) for rank in ranks] == [[address]] * len(ranks)
    warnings = job.all("diagnostic", source="MASTER_ADDR")
    assert len(warnings) == told
    assert all("set MASTER_ADDR" in event["msg"] for event in warnings)


def test_no_rank_inherits_the_lock(supervised):
    source = "import os; print([os.readlink(f'/dev/fd/{n}') for n in range(3, 64) if is_open(n)])"
    is_open = "import os\ndef is_open(n): return os.path.islink(f'/dev/fd/{n}')\n"
    job = supervised("--standalone", "1", *python(is_open + source))
    assert job.end() == 0
    assert job.said(0) == ["[]"]
