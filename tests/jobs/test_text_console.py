"""Whole jobs as people see them on a terminal: progress bars, colours, times, joined lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.running import Running, python, wait_until
from tests.terminals import Window

PROGRESS = """
import os, pathlib, sys, time
rank = os.environ["RANK_ID"]
print(f"\\x1b[32mgreen {rank}\\x1b[0m", flush=True)
sys.stdout.write("compiling ...")
sys.stdout.flush()
until = lambda name: [time.sleep(0.01) for _ in iter(lambda: os.path.exists(name), True)]
until("../compiled")
print(" done")
for part in range(101):
    sys.stdout.write(f"\\r{part}%|####")
    sys.stdout.flush()
    if part == 45:
        until("../over")
print()
"""
RANKS = range(8)
TIME = r"\d\d:\d\d:\d\d\.\d\d\d"


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window(250, 50)
    yield window
    window.close()


def shows(window: Window, words: str) -> bool:
    """Whether each rank has exactly one line that ends so."""
    return sorted(line for line in window.lines if line.endswith(words)) == [
        f"[rank {rank}] {words}" for rank in RANKS
    ]


def test_eight_progress_bars_are_visible_and_readable(supervised, window, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRESS)
    job: Running = supervised(
        *("--standalone", "8", "--work-dir", str(tmp_path), "--rank-dir", "rank"),
        *("--", sys.executable, str(script)),
        stdout=window.stdout,
        environ={"TERM": "xterm", "TZ": "Asia/Shanghai"},
    )
    wait_until(partial(shows, window, "compiling ..."))
    (tmp_path / "compiled").touch()
    wait_until(partial(shows, window, "45%|####"))
    (tmp_path / "over").touch()
    assert job.end() == 0
    window.close()
    assert shows(window, "compiling ... done")
    assert shows(window, "100%|####")
    assert not any("45%" in line or line.endswith("...") for line in window.lines)
    ours = [line for line in window.lines if not line.startswith("[rank ")]
    assert re.match(rf"\d{{4}}-\d\d-\d\d {TIME} \+08:00 ascend_supervisor ", ours[0])
    assert all(re.match(rf"{TIME} (?!\+)", line) for line in ours[1:])
    assert "\x1b[36m[rank 0]\x1b[0m \x1b[32mgreen 0\x1b[0m" in window.data.decode()


def ranks_in(line: str) -> list[int]:
    """The ranks of ``ranks 0 to 2, 5 started`` and ``rank 0 runs``."""
    words = re.sub(r" (started|runs|exited) .*", "", line.partition(" rank")[2].lstrip("s "))
    found: list[int] = []
    for span in words.split(", "):
        first, _, last = span.partition(" to ")
        found += range(int(first), int(last or first) + 1)
    return found


def told_of(window: Window, *words: str) -> list[int]:
    """The ranks of which one of these words is told, in the order of the lines."""
    lines = [line for line in window.lines if any(word in line for word in words)]
    return [rank for line in lines for rank in ranks_in(line)]


def test_each_start_and_end_is_told_once_whichever_are_joined(supervised, window, tmp_path):
    source = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    job: Running = supervised(
        *("--standalone", "8", "--rank-dir", "same"),
        *python(source),
        stdout=window.stdout,
        environ={"TERM": "xterm"},
    )
    wait_until(lambda: len(told_of(window, " started ", " runs as ")) == len(RANKS))
    assert told_of(window, " started ", " runs as ") == list(RANKS)
    (tmp_path / "go").touch()
    assert job.end() == 0
    window.close()
    assert sorted(told_of(window, " exited with ")) == list(RANKS)


def test_labels_are_aligned_and_a_start_is_told_before_what_the_rank_says(supervised, window):
    job: Running = supervised(
        *("--standalone", "11", "--", "echo", "up"),
        stdout=window.stdout,
        environ={"TERM": "xterm"},
    )
    assert job.end() == 0
    window.close()
    lines = window.lines
    for rank in range(11):
        said = lines.index(f"[rank {rank:>2}] up")
        told = [line for line in lines[:said] if " started " in line or " runs as " in line]
        assert any(rank in ranks_in(line) for line in told)


@pytest.mark.parametrize(
    ("options", "environ", "is_coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        (("--color", "never"), {}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_on_a_terminal(
    supervised: Any,
    window: Window,
    options: tuple[str, ...],
    environ: dict[str, str],
    is_coloured: bool,
) -> None:
    source = "print('\\x1b[32mgreen\\x1b[0m'); raise SystemExit(3)"
    job = supervised(
        *("--standalone", "1", *options),
        *python(source),
        stdout=window.stdout,
        environ={"TERM": "xterm", **environ},
    )
    assert job.end() == 3
    window.close()
    data = window.data.decode()
    assert "[rank 0] green" in window.lines
    for sequence in ("\x1b[36m[rank 0]", "\x1b[32mgreen", "\x1b[1;31merror: "):
        assert (sequence in data) is is_coloured


@pytest.mark.parametrize(
    "zone",
    [
        "UTC+24",
        "UTC-9999",
        "Foo/Bar",
        ":/etc/passwd",
        ":/proc/self/mem",
        "../../etc/passwd",
        "\x1b[31m",
    ],
)
def test_a_time_zone_that_is_none_ends_nothing_and_ranks_get_it(supervised, window, zone):
    shows_it = python("import os; print('zone', ascii(os.environ['TZ']), flush=True)")
    job = supervised(
        *("--console", "text", "--standalone", "1", *shows_it),
        environ={"TZ": zone},
        stdout=window.stdout,
    )
    assert job.end() == 0, job.stderr
    wait_until(lambda: any("ending with exit code 0" in line for line in window.lines))
    assert f"zone {zone!a}\n" in job.log(0).read_text()
