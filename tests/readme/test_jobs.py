"""The commands of the pages that a person types, as real jobs."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
from contextlib import ExitStack
from functools import partial
from subprocess import Popen

import pytest

from tests.jobs.test_ctl import beside as in_its_container
from tests.ports import free_port
from tests.readme.commands import block, commands, inline
from tests.readme.image import beside
from tests.running import DEADLINE_SECONDS, Running
from tests.terminals import Window

RANKS = range(4)
HELLO = "ascend-supervisor --standalone 2 "


@pytest.fixture
def window():
    window = Window(250, 50)
    yield window
    window.close()


def test_a_job_without_a_cluster_prints_json_where_there_is_no_terminal(image):
    job = image.enters(block(HELLO), {})
    assert job.end() == 0
    assert [job.said(rank) for rank in range(2)] == [[f"hello from rank {rank}"] for rank in (0, 1)]
    assert len(list((image.root / "logs").glob("*-proc-rank-?-device-?.txt"))) == 2


@pytest.mark.parametrize("options", ["", "--console text "], ids=["terminal", "request"])
def test_a_job_without_a_cluster_prints_text_on_a_terminal_or_on_request(image, window, options):
    file = image.root / "stdout"
    with file.open("wb") as stdout:
        where = stdout.fileno() if options else window.stdout
        script = block(HELLO).replace(HELLO, HELLO + options)
        assert image.enters(script, {"TERM": "xterm"}, stdout=where).end() == 0
    window.close()
    lines = file.read_text().splitlines() if options else window.lines
    said = sorted(line for line in lines if line.startswith("[rank "))
    assert said == [f"[rank {rank}] hello from rank {rank}" for rank in range(2)]


SEVERAL = re.compile(r" ranks? [\d, to]+ (?:started|runs|exited|was|were)\b")


def said(text: str) -> set[str]:
    """The lines without numbers, and without those that tell several ranks only if at one time."""
    lines = (re.sub(r"after [\d. to]+ s", "after so long", line) for line in text.splitlines())
    return {re.sub(r"\d+", "0", line) for line in lines if not SEVERAL.search(line)}


def test_the_first_job_prints_what_is_shown(image):
    file = image.root / "stdout"
    with file.open("wb") as stdout:
        script = block(HELLO).replace(HELLO, f"{HELLO}--console text ")
        job = image.enters(script, {"TZ": "UTC"}, stdout=stdout.fileno())
        assert job.end() == 0
    assert said(block("2026-")) <= said(file.read_text())


FAILS = """\
import os, time
if os.environ["RANK"] == "2":
    raise RuntimeError("loss is nan: the learning rate is too high")
time.sleep(600)
"""


def test_a_failure_is_told_as_shown(supervised):
    job = supervised("--standalone", "4", "--", sys.executable, "-c", FAILS)
    assert job.end() == 1
    assert said(job.wait_for("supervisor.exited")["msg"]) == said(block("rank 2 failed first, "))


TTL = 2
AT_THE_PROMPT = """\
set -m
{block}
set -- $(jobs -p)
wait $2 && wait $3 || exit
kill %1
wait %1
"""
"""A shell for people has job control."""


@pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (etcd-server)")
def test_two_servers_agree_through_an_etcd(image):
    """With its own ports, and a shorter --peers-ttl, after which the ranks start."""
    url, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    etcd = {"LISTEN_CLIENT_URLS": url, "ADVERTISE_CLIENT_URLS": url, "LISTEN_PEER_URLS": peers}
    etcd |= {"INITIAL_ADVERTISE_PEER_URLS": peers, "INITIAL_CLUSTER": f"default={peers}"}
    environ = {f"ETCD_{name}": value for name, value in etcd.items()}
    script = block("etcd > etcd.log").replace("http://127.0.0.1:2379", url)
    said = image.root / "said"
    with said.open("wb") as stdout:
        job = image.enters(
            AT_THE_PROMPT.format(block=script),
            {**environ, "ASCEND_SUPERVISOR_PEERS_TTL": f"{TTL}"},
            stdout=stdout.fileno(),
        )
        assert job.end() == 128 + signal.SIGTERM, job.stderr
    for rank in range(2):
        assert f"\n[rank {rank}] hello from rank {rank}\n" in said.read_text()
    assert {path.name for path in image.root.glob("logs-*")} == {"logs-0", "logs-1"}
    assert (image.root / "etcd.log").exists()
    assert job.survivors() == []


SHOWS = """\
import json, os, sys
names = "LD_LIBRARY_PATH", "GROUP_INFO_FILE", "DEVICE_INDEX", "HCCL_IF_IP"
print(json.dumps([os.getcwd(), sys.argv[1:], *map(os.environ.get, names)]))
"""


def test_ranks_get_variables_and_arguments_of_ones_own(image, with_table):
    image.with_file("code/train.py", SHOWS)
    cann = "usr/local/Ascend/ascend-toolkit/set_env.sh"
    image.with_file(cann, "export LD_LIBRARY_PATH=/usr/local/Ascend/lib64\n")
    script = image.here(block("ascend-supervisor \\\n"))
    job = image.enters(script, {**with_table, "XDL_IP": "10.0.9.3"})
    assert job.end() == 0, job.stderr
    for rank in RANKS:
        (line,) = job.said(rank)
        where, arguments, library, group, index, address = json.loads(line)
        assert arguments == [f"--model_dir=/out/device_{rank}", f"--gpu={rank}"]
        assert (library, index, address) == ("/usr/local/Ascend/lib64", f"{rank}", "10.0.9.3")
        assert group == f"{where}/group_info.pb"


NUMBERS = ("--", "bash", "-c", "seq 30; exec sleep 600")


def next_lines(asked: Popen[str], *, last: str) -> list[str]:
    """What it prints up to this line."""
    assert asked.stdout is not None
    lines = []
    for line in asked.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1] == last:
            return lines
    raise AssertionError(f"no line {last!r}; there are {lines}")


def answered(job: Running, line: str) -> str:
    with beside(job, line, in_its_container(job)) as asked:
        said, _ = asked.communicate(timeout=DEADLINE_SECONDS)
    assert asked.returncode == 0, said
    return said


def test_a_job_is_looked_at(supervised):
    status, logs, dump, restart, stop = block("ascend-supervisorctl ").splitlines()
    options = ("--standalone", "4", "--restarts", "3", "--restart-delay", "0", "--grace", "5")
    job = supervised(*options, *NUMBERS)
    for rank in RANKS:
        job.wait_for("output", rank=rank, msg="30")
    with ExitStack() as stack:
        beside_it = partial(beside, job, environ=in_its_container(job))
        watching, following = (stack.enter_context(beside_it(line)) for line in (status, logs))
        assert next_lines(following, last="30") == [f"{number}" for number in range(11, 31)]
        next_lines(watching, last="restarts left  3")
        stacks = answered(job, dump).splitlines()[1:]
        assert [path.rpartition("/")[2] for path in stacks] == [
            f"rank-{rank}.txt" for rank in RANKS
        ]
        assert answered(job, restart) == "generation 0 is ended, and the next one starts\n"
        assert next_lines(following, last="30")[-30:] == [f"{number}" for number in range(1, 31)]
        next_lines(watching, last="generation     1")
        next_lines(watching, last="restarts left  3")  # it is not charged
        for line in inline(commands()):
            if line.startswith("ascend-supervisorctl "):
                assert answered(job, line)
        assert "ending with exit code 143\n" in answered(job, stop)
        assert job.end() == 128 + signal.SIGTERM
        next_lines(watching, last="exit code      143")
        assert [one.wait(DEADLINE_SECONDS) for one in (watching, following)] == [0, 0]
