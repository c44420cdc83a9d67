"""What ``explain`` reads in the JSON of a supervisor's console, as kubectl logs shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.ctl.calling import ENVIRON, Answer, ctl
from tests.running import DEADLINE_SECONDS

FULL = "raise OSError(28, 'No space left on device', 'ckpt.pt')"
KILLED = "import signal; os.kill(os.getpid(), signal.SIGKILL)"
RAISED = "raise SystemExit(3)"


def console(tmp_path: Path, of_rank_1: str, *options: str) -> list[str]:
    """The lines of a job in which rank 1 does this, and rank 0 waits for its end."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time\n"
        "print('step 1')\n"
        f"if os.environ['RANK'] == '1':\n    {of_rank_1}\n"
        f"time.sleep({DEADLINE_SECONDS})\n"
    )
    program = sys.executable, "-m", "ascend_supervisor", "--standalone", "2", "--grace", "1"
    where = "--log-dir", str(tmp_path / "logs")
    found = subprocess.run(
        [*program, *where, "--console", "json", *options, "--", sys.executable, str(script)],
        env=ENVIRON,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
    )
    return found.stdout.splitlines(keepends=True)


def explained(tmp_path: Path, lines: list[str], code: int = 0) -> list[str]:
    path = tmp_path / "console.log"
    path.write_text("".join(lines))
    found: Answer = ctl("explain", str(path))
    assert (found.returncode, found.stderr) == (code, "")
    return found.stdout.replace(str(path), "-").splitlines()


def test_what_the_supervisor_says_of_its_end_is_believed(tmp_path):
    lines = console(tmp_path, RAISED)
    end = json.loads(lines[-1])
    assert explained(tmp_path, lines, 1) == [f"-: no known cause; it ended with: {end['reason']}"]
    assert " it exited with status 3 after " in end["reason"]


def test_its_cause_and_the_rank_are_told_and_the_words_are_those_of_our_table(tmp_path):
    lines = console(tmp_path, FULL)
    head, place, line = explained(tmp_path, lines)
    assert head.startswith("-: the disk or volume that it writes to is full; ")
    assert place == "  rank 1; see docs/causes.md#disk-full"
    assert line.startswith("  rank 1 failed first, in generation 0: it exited with status 1 after ")
    forged = (
        lines[-1].replace("it writes to is full", "is \\u001b[2J").replace("make room", "a\\tb")
    )
    head = explained(tmp_path, [*lines[:-1], forged])[0]
    assert head.startswith("-: the disk or volume that it writes to is full; a\\tb (df -h")


def test_before_its_end_the_output_of_the_ranks_in_the_last_generation_counts(tmp_path):
    lines = console(tmp_path, FULL, "--restarts", "1", "--restart-delay", "0.1")
    head, place, line = explained(tmp_path, lines[:-1])
    assert head.endswith(" [disk-full]")
    assert place.startswith("  rank 1; see ")
    assert line == "  OSError: [Errno 28] No space left on device: 'ckpt.pt'"
    events = [json.loads(one)["event"] for one in lines]
    second = len(events) - events[::-1].index("generation.started")
    assert explained(tmp_path, lines[:second], 1) == ["-: no known cause"]


def test_of_a_start_after_an_end_the_end_does_not_count_and_a_cut_line_tells_nothing(tmp_path):
    lines = console(tmp_path, KILLED)
    assert explained(tmp_path, [*lines, *lines[:3]], 1) == ["-: no known cause"]
    assert explained(tmp_path, [lines[0][9:], *lines[1:-1], lines[-1][:90]], 1) == [
        "-: no known cause"
    ]


def test_a_long_line_that_the_console_cut_is_whole_again(tmp_path):
    long = f"raise OSError(28, 'No space left on device', {'x' * 2000!r})"
    line = explained(tmp_path, console(tmp_path, long)[:-1])[2]
    assert line.startswith("  OSError: [Errno 28] No space left on device: 'xxx")
