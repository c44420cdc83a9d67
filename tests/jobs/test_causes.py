"""The cause of a failure as users read it, in the last event: whose words it is told in."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.evidence.programs import ASIDES, RAISES_LOSS, TRACEBACK_FAR_BACK, ending_with
from tests.rank_tables import WITHOUT_ADDRESSES as TABLE
from tests.rank_tables import data
from tests.running import Running, python

QUICK = ("--release-delay", "0", "--restart-delay", "0")


def reason(job: Running) -> str:
    return str(job.events[-1]["reason"])


def script(root: Path, source: str) -> tuple[str, ...]:
    (root / "train.py").write_text(source)
    return ("--", sys.executable, str(root / "train.py"))


@pytest.mark.parametrize("name", ["a spawned child", "a destructor", "logging", "a forgotten task"])
def test_a_rank_that_lost_its_peer_is_told_as_a_consequence_beside_an_aside(
    supervised, tmp_path, name
):
    job = supervised("--standalone", "2", *script(tmp_path, ending_with(ASIDES[name], RAISES_LOSS)))
    assert job.end() == 1
    assert "a consequence: it lost the connection to another rank; look at the ranks on " in reason(
        job
    )


def test_a_lost_download_is_no_lost_peer(supervised):
    lost = "raise ConnectionResetError(104, 'Connection reset by peer')"
    for ranks in ("1", "2"):
        job = supervised("--standalone", ranks, *python(lost))
        assert job.end() == 1
        assert "another rank" not in reason(job)
        assert "ConnectionResetError: [Errno 104] Connection reset by peer" in reason(job)


def test_with_one_rank_no_other_rank_is_blamed(supervised):
    job = supervised("--standalone", "1", *python(RAISES_LOSS))
    assert job.end() == 1
    assert "another rank" not in reason(job)
    assert "Connection closed by peer [10.64.77.53]" in reason(job)


@pytest.mark.parametrize("method", ["ranktable", "once"])
def test_an_exception_far_back_is_told(supervised, tmp_path, method):
    options = ("--standalone", "1") if method == "ranktable" else ("--method", "once")
    job = supervised(*options, *script(tmp_path, TRACEBACK_FAR_BACK.format(lines=300, width=100)))
    assert job.end() == 1
    assert ": ValueError: nan; " in reason(job)


def test_ranks_that_fail_alike_at_the_start_are_told_together(supervised):
    job = supervised("--standalone", "4", *python("import no_such_module"))
    assert job.end() == 1
    assert reason(job).startswith("all 4 ranks failed alike, first rank ")
    assert ": ModuleNotFoundError: No module named 'no_such_module'; " in reason(job)
    assert job.events[-1]["root_cause"].startswith("all 4 ranks failed alike, first rank ")


def test_ranks_that_end_with_the_same_text_are_told_together(supervised, tmp_path):
    """They wait for each other: it is the end that comes at once, not the start of a Python."""
    source = (
        "import os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).touch()\n"
        "while len(os.listdir(sys.argv[1])) < 4: time.sleep(0.001)\n"
        "sys.exit('no such directory: /data')"
    )
    (tmp_path / "ready").mkdir()
    job = supervised("--standalone", "4", *python(source), str(tmp_path / "ready"))
    assert job.end() == 1
    assert re.match("(all|[23] of) 4 ranks failed alike, first rank ", reason(job))
    assert ": its last line is: no such directory: /data; " in reason(job)


def test_ranks_that_end_alike_because_they_are_told_to_stop_are_not_told_together(
    supervised, tmp_path
):
    source = (
        "import os, pathlib, signal, sys, time\n"
        "end = lambda *_: sys.exit('no such directory: /data')\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path(sys.argv[1], os.environ['RANK']).touch()\n"
        "while os.environ['RANK'] != '0': time.sleep(0.01)\n"
        "while len(os.listdir(sys.argv[1])) < 4: time.sleep(0.01)\n"
        "end()"
    )
    (tmp_path / "ready").mkdir()
    job = supervised("--standalone", "4", *python(source), str(tmp_path / "ready"))
    assert job.end() == 1
    assert reason(job).startswith("rank 0 failed first, ")


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("import argparse\nargparse.ArgumentParser(prog='train.py').parse_args(['--bs'])", 2,
         "train.py: error: unrecognized arguments: --bs"),
        ("raise SystemExit('no data in /data')", 1, "its last line is: no data in /data"),
        (("import anyio\nasync def work(): {}['gone']\nasync def main():\n"
          "    async with anyio.create_task_group() as group: group.start_soon(work)\n"
          "anyio.run(main)"), 1, "KeyError: 'gone'"),
        (("import os\nfrom multiprocessing import shared_memory\n"
          "shared_memory.SharedMemory(f'test_causes_{os.getpid()}', True, 10)\n"
          "raise SystemExit('no data in /data')"), 1, "its last line is: no data in /data"),
        ("class Bad(Exception): pass\nraise Bad('\\n---\\nValueError: bad cell')", 1,
         "ValueError: bad cell"),
    ],
)  # fmt: skip
def test_what_the_end_of_the_log_says_is_told(supervised, source, code, said):
    job = supervised("--standalone", "1", *python(source))
    assert job.end() == code
    assert f": {said}; " in reason(job)


SEGFAULT = "import ctypes\ndef step(): ctypes.string_at(0)\nstep()"


@pytest.mark.parametrize("method", ["ranktable", "torch-ddp", "mindspore"])
def test_the_frame_of_a_segmentation_fault_is_told(supervised, method):
    job = supervised("--standalone", "1", "--method", method, *python(SEGFAULT))
    assert job.end() == 139
    assert ": Segmentation fault, at " in reason(job)
    assert "in step" in job.events[-1]["root_cause"]


@pytest.mark.parametrize("mark", ["", "[default1]:"])
def test_the_frame_of_a_segmentation_fault_is_told_through_a_shell(supervised, tmp_path, mark):
    (tmp_path / "train.py").write_text(f"import faulthandler; faulthandler.enable()\n{SEGFAULT}")
    program = f"{sys.executable} {tmp_path}/train.py 2>&1 | sed 's/^/{mark}/'"
    job = supervised("--method", "once", "--", "bash", "-c", program + "; exit ${PIPESTATUS[0]}")
    assert job.end() == 139
    assert ": Segmentation fault, at " in reason(job)
    assert ", in string_at; " in reason(job)


def test_a_user_may_switch_faulthandler_off(supervised):
    job = supervised("--standalone", "1", *python(SEGFAULT), environ={"PYTHONFAULTHANDLER": ""})
    assert job.end() == 139
    assert "Segmentation fault" not in reason(job)


IN_ONE_LOG = (
    "import sys\n"
    "bad = ['Traceback (most recent call last):', '  File \"t.py\", line 1, in <module>',\n"
    "       'ValueError: bad batch 17']\n"
    "lost = [*bad[:2], 'RuntimeError: [gloo/transport/tcp/pair.cc:5] Connection closed by peer']\n"
    "for one in bad: print('[rank1]:', one)\n"
    "for one in lost: print('[rank0]:', one)\n"
    "sys.exit(1)"
)


WATCHDOGS = (
    "import sys\n"
    "for rank in (0, 1, 3):\n"
    "    print(f'{mark}[E614 11:14:03.086 ProcessGroupHCCL.cpp:1319] [Rank {{rank}}] Watchdog '\n"
    "          'caught collective operation timeout: WorkHCCL(SeqNum=880)')\n"
    "sys.exit(1)"
)


@pytest.mark.parametrize(
    ("table", "mark", "where"), [(None, "[rank{rank}]:", "of ranks 0 to 3"), (TABLE, "", "here")]
)
def test_the_rank_of_a_command_whose_watchdog_did_not_fire_is_named(
    supervised, tmp_path, table, mark, where
):
    options = () if table is None else ("--rank-table", str(tmp_path / "hccl.json"))
    (tmp_path / "hccl.json").write_bytes(data(TABLE))
    job = supervised("--method", "once", *options, *python(WATCHDOGS.format(mark=mark)))
    assert job.end() == 1
    assert f"look at rank 2, the only one {where} whose watchdog did not fire" in reason(job)


def test_in_one_log_of_many_ranks_the_cause_is_no_consequence(supervised):
    job = supervised("--method", "once", *python(IN_ONE_LOG))
    assert job.end() == 1
    assert ": rank 1: ValueError: bad batch 17; " in reason(job)


SUMMARY = (
    "import sys\n"
    "print('E1 failed (exitcode: -11) local_rank: 1 (pid: 13) of binary: python')\n"
    "print('  rank      : 1 (local_rank: 1)')\n"
    "print('  exitcode  : -11 (pid: 13)')\n"
    "sys.exit(1)"
)


@pytest.mark.parametrize("options", [("--method", "once"), ("--standalone", "1")], ids=str)
def test_torchruns_summary_is_read_whoever_started_it(supervised, options):
    job = supervised(*options, *python(SUMMARY))
    assert job.end() == 1
    assert ": rank 1 was killed by SIGSEGV; " in reason(job)


FAILS = f"{sys.executable} -c 'raise ValueError(17)' 2>&1 | cat; echo evaluated"


@pytest.mark.parametrize("options", [("--method", "once"), ("--standalone", "1")], ids=str)
def test_a_failed_step_of_a_pipeline_that_ends_with_0_is_told(supervised, options):
    job = supervised(*options, "--", "bash", "-c", FAILS)
    assert job.end() == 0
    end = job.events[-1]
    assert " holds an uncaught exception, ValueError: 17; a pipe in a script " in end["doubt"]
    assert "set -o pipefail" in end["msg"]
    assert end["level"] == "warning"


def test_a_rank_that_a_signal_has_ended_behind_a_shell_is_told(supervised):
    kills = f"{sys.executable} -c 'import os; os.kill(os.getpid(), 9)'; true"
    job = supervised("--method", "once", "--", "bash", "-c", kills)
    assert job.end() == 0
    assert " Killed " in reason(job)


SAYS_WHY = f"""{sys.executable} -c 'raise SystemExit("train.py: error: no data")' 2>&1 | cat"""


def test_an_error_as_the_last_line_of_a_pipeline_that_ends_with_0_is_told(supervised):
    job = supervised("--method", "once", "--", "bash", "-c", SAYS_WHY)
    assert job.end() == 0
    assert "the output of the command ends with 'train.py: error: no data'" in reason(job)
