"""The root cause of a whole job leads to where the cause is: by CANN's codes, and by its logs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.running import Running, python

MEANING = "EI0006: HCCL got no connection to another rank (the limit is HCCL_CONNECT_TIMEOUT)"
RAISING = """
import os, sys
if os.environ["RANK"] == "0":
    import time
    time.sleep(600)
raise RuntimeError('''HCCL function error: HcclCommInitRootInfo, error code is 9
EI0006: [PID: 4711] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: srcRank (server \\
10.0.0.1, device ID 1) fails to connect to dstRank (server 10.0.0.2, device ID 0).''')
"""
LOGGING = """
import os, pathlib, sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    os._exit(3)
folder = pathlib.Path(os.environ["ASCEND_PROCESS_LOG_PATH"], "debug", "plog")
folder.mkdir(parents=True, exist_ok=True)
(folder / f"plog-{os.getpid()}_20251124111652406.log").write_text('''\\
[ERROR] HCCL(1,python3):2025 [hccl_socket_manager.cc:778] [2]wait socket establish timeout, role[1]
[ERROR] HCCL(1,python3):2025 [hccl_socket_manager.cc:582] [2]   |  10.20.0.29(27)   |  16666  | \\
10.20.0.2(0)   |  server  | time out |   DISABLE  | LinkInfo
''')
os._exit(1)
"""
PEER = "a consequence: look at rank 27, on 10.20.0.29"


def cause(job: Running) -> str:
    assert job.events[-1]["event"] == "supervisor.exited"
    return str(job.events[-1]["root_cause"])


def test_a_printed_code_is_explained_wherever_the_cause_is_told(supervised, tmp_path):
    told = tmp_path / "termination-log"
    told.touch()
    job = supervised(
        *("--standalone", "2", "--termination-log", str(told), "--restarts", "1"),
        *("--restart-delay", "0", "--release-delay", "0", *python(RAISING)),
    )
    assert job.end() == 1
    head = cause(job).splitlines()[0]
    assert head.startswith("rank 1 failed first, in generation 1: it exited with status 1 after")
    assert head.endswith(f"{MEANING}, a consequence: look at device 0 of server 10.0.0.2")
    assert told.read_text().startswith(cause(job))
    [state] = job.log_dir.glob("*-supervisor-*.json")
    assert json.loads(state.read_text())["root_cause"] == cause(job)
    assert MEANING in job.wait_for("restart.scheduled")["cause"]


def test_the_log_of_cann_tells_what_the_rank_does_not(supervised):
    job = supervised("--standalone", "1", *python(LOGGING))
    assert job.end() == 1
    assert f"{MEANING}, {PEER}" in cause(job).splitlines()[0]


def test_it_is_found_in_the_home_directory_too(supervised, tmp_path):
    source = LOGGING.replace('os.environ["ASCEND_PROCESS_LOG_PATH"]', f"'{tmp_path}/ascend/log'")
    unset = "import os; os.environ.pop('ASCEND_PROCESS_LOG_PATH')\n"
    job = supervised(
        *("--standalone", "1", *python(unset + source)),
        environ={"HOME": str(tmp_path), "ASCEND_PROCESS_LOG_PATH": f"{tmp_path}/ascend/log"},
    )
    assert job.end() == 1
    assert PEER in cause(job)


def test_a_script_that_starts_the_rank_has_the_log_of_the_rank(supervised, tmp_path):
    (tmp_path / "train.py").write_text(LOGGING)
    job = supervised("--standalone", "1", "--", "sh", "-c", f"python3 {tmp_path}/train.py; exit 5")
    assert job.end() == 5
    assert PEER in cause(job)


def test_the_log_of_an_earlier_generation_explains_nothing(supervised):
    options = ("--restarts", "1", "--restart-delay", "0", "--release-delay", "0")
    job = supervised("--standalone", "1", *options, *python(LOGGING))
    assert job.end() == 3
    assert PEER in job.wait_for("restart.scheduled")["cause"]
    assert "EI0006" not in cause(job)


def test_the_others_are_not_blamed_for_their_logs(supervised, tmp_path):
    """All ranks share the directory that the user has named: only the pid tells whose log it is."""
    source = f"""
import os, time
if os.environ["RANK"] == "0":
    try:
        exec({LOGGING.replace("os._exit(1)", "raise ValueError")!r})
    except ValueError:
        print("logged", flush=True)
        time.sleep(600)
while not list(__import__("pathlib").Path({str(tmp_path)!r}).rglob("plog-*")):
    time.sleep(0.01)
os._exit(4)
"""
    job = supervised(
        *("--standalone", "2", *python(source)), environ={"ASCEND_PROCESS_LOG_PATH": str(tmp_path)}
    )
    assert job.end() == 4
    assert "EI0006" not in cause(job)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [os.mkfifo, loop])
def test_a_planted_log_directory_keeps_nobody(supervised, tmp_path, make):
    (tmp_path / "ascend" / "debug").mkdir(parents=True)
    make(tmp_path / "ascend" / "debug" / "plog")
    job = supervised(
        *("--standalone", "1", *python("raise SystemExit(9)")),
        environ={"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "ascend")},
    )
    assert job.end() == 9
    assert "rank 0 failed first" in cause(job)
