"""``ascend-supervisorctl status --watch`` on a terminal, beside a real supervisor."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.ctl.calling import ENVIRON, PROGRAM, ctl
from tests.jobs.test_ctl import UP, beside, until_named, until_running
from tests.running import Running, python
from tests.terminals import Terminal

SAYS = (
    "import os, time\n"
    "os.write(1, b'begun\\n')\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n"
    "os.write(1, b'\\x1b[2J\\x1b[31mstep 2\\x1b[0m ' + b'x' * 500 + b'\\n')\n"
    "time.sleep(600)"
)


@pytest.fixture
def watching() -> Iterator[Callable[..., Terminal]]:
    """Watch a job in a terminal of this size."""
    opened: list[Terminal] = []

    def watch(job: Running, columns: int = 100, lines: int = 24) -> Terminal:
        environ = {**ENVIRON, **beside(job), "TERM": "xterm"}
        words = (*PROGRAM, "status", "--watch")
        opened.append(Terminal(*words, columns=columns, lines=lines, environ=environ))
        return opened[-1]

    yield watch
    for terminal in opened:
        terminal.close()


def row_of(rows: list[str], begin: str) -> str:
    return next((row for row in rows if row.startswith(begin)), "")


def test_rows_are_redrawn_in_place(supervised, watching):
    job: Running = supervised("--standalone", "2", "--rank-dir", "same", *python(SAYS))
    until_running(job, 2)
    terminal: Terminal = watching(job)
    before = terminal.until(lambda rows: row_of(rows, "1  ").endswith("begun"))
    assert before[0].startswith("job ")
    (job.root / "go").touch()
    after = terminal.until(lambda rows: "step 2 xxx" in row_of(rows, "1  "))
    assert [row[:14] for row in before] == [row[:14] for row in after]
    assert all(len(row) < 100 for row in after)
    assert row_of(after, "0  ").endswith("...")


def test_rows_follow_the_size_of_the_window(supervised, watching):
    job: Running = supervised("--standalone", "8", *python(UP))
    until_running(job, 8)
    terminal: Terminal = watching(job)
    terminal.until(lambda rows: row_of(rows, "7  ").endswith("up"))
    terminal.resize(60, 12)
    rows = terminal.until(lambda rows: any(row.startswith("and ") for row in rows))
    assert len(rows) == 12
    assert rows[0].startswith("job ")
    assert row_of(rows, "RANK")
    terminal.resize(100, 24)
    terminal.until(lambda rows: row_of(rows, "7  ").endswith("up"))


def test_ctrl_c_ends_it_silently_and_leaves_the_terminal_as_it_was(supervised, watching):
    job: Running = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    terminal: Terminal = watching(job)
    rows = terminal.until(lambda rows: row_of(rows, "0  ").endswith("up"))
    last = max(at for at, row in enumerate(rows) if row)
    terminal.press(b"\x03")
    assert terminal.end() == -signal.SIGINT
    terminal.until(lambda _: terminal.cursor == (0, last + 1))
    assert "Traceback" not in "".join(terminal.rows)
    assert terminal.settings_now == terminal.settings
    assert terminal.wraps
    assert job.process.poll() is None


def test_it_ends_with_the_supervisor_and_leaves_its_last_screen(supervised, watching):
    job: Running = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    terminal: Terminal = watching(job)
    terminal.until(lambda rows: row_of(rows, "0  ").endswith("up"))
    assert ctl("stop", environ=beside(job)).returncode == 0
    assert job.end() == 143
    assert terminal.end() == 0
    rows = terminal.until(lambda rows: row_of(rows, "exit code"))
    assert row_of(rows, "phase").split() == ["phase", "ended"]
    assert row_of(rows, "exit code").split() == ["exit", "code", "143"]


def test_a_supervisor_that_was_killed_is_told(supervised, watching):
    job: Running = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    terminal: Terminal = watching(job)
    terminal.until(lambda rows: row_of(rows, "0  ").endswith("up"))
    job.send(signal.SIGKILL)
    assert job.end() == 137
    assert terminal.end() == 0
    terminal.until(lambda rows: "does not run here" in row_of(rows, "trouble"))


def test_a_supervisor_that_is_stopped_is_told_until_it_goes_on(supervised, watching):
    job: Running = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    terminal: Terminal = watching(job, columns=200)
    terminal.until(lambda rows: row_of(rows, "0  ").endswith("up"))
    job.send(signal.SIGSTOP)
    terminal.until(lambda rows: "kill -CONT" in row_of(rows, "trouble"))
    job.send(signal.SIGCONT)
    terminal.until(lambda rows: not row_of(rows, "trouble") and row_of(rows, "0  "))


def test_restarts_and_their_causes_stay_on_the_screen(supervised, watching):
    source = (
        "import os, time\n"
        "os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os._exit(7)\n"
        "os.write(1, b'up\\n'); time.sleep(600)"
    )
    job: Running = supervised(
        "--standalone", "1", "--restarts", "1", "--restart-delay", "0", *python(source)
    )
    job.wait_for("generation.started", generation=1)
    until_named(job, 1)
    terminal: Terminal = watching(job)
    rows = terminal.until(lambda rows: row_of(rows, "0  ").endswith("up"))
    assert "after generation 0: rank 0 failed first" in row_of(rows, "restarts  ")
    assert row_of(rows, "restarts left").split()[-1] == "0"


def test_a_watcher_that_comes_first_waits_for_the_supervisor(supervised, tmp_path):
    words = (*PROGRAM, "status", "--watch", "--json", "--log-dir", str(tmp_path / "log"))
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=ENVIRON, text=True, stdout=pipe, stderr=pipe) as watcher:
        assert watcher.stdout is not None
        assert watcher.stderr is not None
        assert "there is no state file" in next(watcher.stderr)
        assert any("waiting for a supervisor to start here" in line for line in watcher.stderr)
        options = ("--standalone", "1", "--log-dir", str(tmp_path / "log"))
        assert supervised(*options, *python("import time; time.sleep(3)")).end() == 0
        assert json.loads(watcher.stdout.readlines()[-1])["phase"] == "ended"
        assert watcher.wait(30) == 0
