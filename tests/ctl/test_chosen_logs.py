"""Lines that are chosen from the logs: by time, pattern and level, through all files of a log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ascend_supervisor.output.log_file import LogFile, Rotation
from tests.ctl.calling import ENVIRON, PROGRAM, ctl, own_state, rank_of, refused
from tests.running import DEADLINE_SECONDS


def stamp(ago: float) -> str:
    return datetime.fromtimestamp(time.time() - ago).isoformat(sep=" ", timespec="milliseconds")  # noqa: DTZ006


def ours(ago: float, text: str) -> str:
    moment = datetime.fromtimestamp(time.time() - ago, timezone.utc).isoformat(
        timespec="microseconds"
    )
    return f"[ascend_supervisor] {moment} {text}\n"


def head(ago: float, rank: int = 0, start: int = 1) -> str:
    began = f"2026-11-29T0{start}:00:00.000+00:00"
    words = f"job a, host, supervisor process 1, started {began}"
    return ours(ago, f"log of rank {rank}, {words}")


def written(path: Path, text: str, ago: float = 0) -> Path:
    """A file that was written last so long ago."""
    path.write_text(text)
    os.utime(path, (time.time() - ago, time.time() - ago))
    return path


def logs(tmp_path: Path, *words: str, ranks: int = 1, code: int = 0) -> list[str]:
    """The lines that are printed; the log of each rank is ``log-0`` and so on."""
    listed = [rank_of(tmp_path / f"log-{rank}", rank) for rank in range(ranks)]
    path = own_state(tmp_path / "state", ranks=listed)
    found = ctl("logs", *words, "--state-file", str(path))
    assert found.returncode == code, found.stderr
    return found.stdout.splitlines()


def test_the_lines_of_all_ranks_are_merged_by_their_times(tmp_path):
    written(tmp_path / "log-0", f"{stamp(30)} a\n{stamp(10)} d\nmore of d\n")
    written(tmp_path / "log-1", f"{stamp(20)} b\n{stamp(15)} c\n{stamp(5)} e\n")
    found = logs(tmp_path, "--merge", ranks=2)
    assert [line.split()[-1] for line in found] == ["a", "b", "c", "d", "d", "e"]
    assert found[4] == "[rank 0] more of d"
    assert found[5].startswith("[rank 1] ")


def test_lines_without_a_time_come_where_their_generation_begins(tmp_path):
    written(tmp_path / "log-0", f"{head(60)}x\n{ours(20, 'generation 1 of rank 0 begins')}y\n")
    written(tmp_path / "log-1", f"{head(40, 1)}z\n{stamp(1)} end\n")
    found = logs(tmp_path, "--merge", ranks=2)
    assert [line.split()[-1] for line in found if "ascend" not in line] == ["x", "z", "y", "end"]


def test_nothing_is_moved_within_a_log(tmp_path):
    written(tmp_path / "log-0", f"{stamp(5)} 1\n{stamp(50)} 2\n{stamp(4)} 3\n")
    written(tmp_path / "log-1", f"{stamp(20)} other\n")
    found = logs(tmp_path, "--merge", ranks=2)
    assert [line.split()[-1] for line in found] == ["other", "1", "2", "3"]


@pytest.fixture
def all_files(tmp_path: Path) -> Path:
    """A log with files of all kinds, and files beside it that are none of it.

    Those with the numbers 4 and 5 are of the last start.
    """
    names = ["log-0.before-s1-p1", "log-0.s1-p1.1", "log-0.s1-p1", "log-0.2", "log-0.1", "log-0"]
    for number, name in enumerate(names):
        ago = 100 * (len(names) - number)
        first = head(ago + 99, start=min(number, 4))
        written(tmp_path / name, f"{first}{stamp(ago + 50)} word {number}\n", ago)
    for name in ("log-0.gz", "log-01", "log-0.s1-p1.old", "xlog-0.1"):
        written(tmp_path / name, "word not ours\n")
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--merge"], ["--grep", "word"], ["--level", "debug"]])
def test_rotated_files_and_if_asked_for_those_of_earlier_starts_come_first(all_files, words):
    written(all_files / "log-0.before-s1-p1", f"{stamp(650)} INFO word 0\n", 600)
    found = [line for line in logs(all_files, "--all-starts", *words) if "word" in line]
    assert [line.split()[-1] for line in found] == ["0", "1", "2", "3", "4", "5"]
    if words:
        found = [line for line in logs(all_files, *words) if "word" in line]
        assert [line.split()[-1] for line in found] == ["4", "5"]


def test_where_no_file_tells_its_start_the_numbered_ones_are_of_this_one(tmp_path):
    for number, name in enumerate(("log-0.s1-p1", "log-0.1", "log-0")):
        written(tmp_path / name, f"word {number}\n", 10 - number)
    assert logs(tmp_path, "--grep", "word", "0") == ["word 1", "word 2"]


def test_an_age_in_days_is_taken(tmp_path):
    written(tmp_path / "log-0", f"{stamp(100_000)} old\n{stamp(80_000)} new\n", 70_000)
    (line,) = logs(tmp_path, "--since", "1d")
    assert line.endswith("new")


@pytest.mark.parametrize(("since", "first"), [(220, 5), (3600, 0), (260, 4), (360, 3)])
def test_what_is_older_is_left_out(all_files, since, first):
    found = logs(all_files, "--all-starts", "--since", f"{since}s", "--grep", "word")
    assert [int(line.split()[-1]) for line in found] == list(range(first, 6))


def test_a_time_of_day_is_taken_and_one_without_a_zone_is_local(all_files):
    for moment in (stamp(260), datetime.fromtimestamp(time.time() - 260, timezone.utc).isoformat()):
        found = logs(all_files, "--since", moment, "--grep", "word")
        assert [line.split()[-1] for line in found] == ["4", "5"]


def test_lines_that_may_be_recent_are_shown_and_those_that_are_not_are_not(tmp_path):
    text = (
        f"{head(900)}old and unstamped\n"
        f"{ours(800, 'generation 1 of rank 0 begins')}older than 700\n"
        f"{stamp(700)} old\nperhaps\n{stamp(50)} new\nmore of new\n"
        f"{stamp(301)} late, but old\n{stamp(40)} newer\n"
    )
    written(tmp_path / "log-0", text)
    found = logs(tmp_path, "--since", "5m")
    assert [line.split()[-1] for line in found] == ["perhaps", "new", "new", "newer"]
    assert logs(tmp_path, "--since", "5m", "--grep", "old|perhaps") == ["[rank 0] perhaps"]


@pytest.mark.parametrize("words", [[], ["--merge"], ["--grep", "o"], ["--merge", "--grep", "o"]])
def test_what_precedes_the_last_old_line_is_old_and_what_follows_it_may_be_new(tmp_path, words):
    begun = ours(72_000, "generation 0 of rank 0 begins")
    stamps = "".join(f"{stamp(600 * number)} old\n" for number in range(100, 0, -1))
    old = head(72_000) + begun + "unstamped and old\n" * 300 + stamps
    written(tmp_path / "log-0", f"{old}perhaps recorded\n{stamp(0)} now!\nmore, too\n")
    written(tmp_path / "log-1", f"{begun}perhaps from then on\n")
    found = logs(tmp_path, "--since", "1m", *words, ranks=2)
    wanted = (
        ["on", "recorded", "now!", "too"]
        if "--merge" in words
        else ["recorded", "now!", "too", "on"]
    )
    assert [line.split()[-1] for line in found] == wanted


def test_an_unstamped_line_after_an_old_one_has_its_time_where_ranks_are_merged(tmp_path):
    written(tmp_path / "log-0", f"{stamp(500)} old\na\n{stamp(10)} c\n")
    written(tmp_path / "log-1", f"{stamp(400)} old\nb\n{stamp(20)} bb\n")
    found = logs(tmp_path, "--merge", "--since", "1m", ranks=2)
    assert [line.split()[-1] for line in found] == ["a", "b", "bb", "c"]


def test_a_long_log_is_read_from_where_it_may_be_recent(tmp_path):
    old = "".join(f"{stamp(9000 - number / 10)} old {number}\n" for number in range(60_000))
    written(tmp_path / "log-0", f"{head(9001)}{old}{stamp(10)} new\n")
    (line,) = logs(tmp_path, "--since", "1m")
    assert line.endswith(" new")


LEVELLED = """INFO:root:1
WARNING:root:2
  more of 2
INFO:root:3
  more of 3
ERROR:root:4
step 5
[ERROR] HCCL(1,python):2026-11-26-10:00:00.000.000 [a.cc:1] 6
[WARNING] ME(1:2,MainProcess):2026-11-26-10:00:00.000.000 [a.py:1] 7
I1126 10:00:00.000000 1 a.cc:1] 8
Traceback (most recent call last):
  File "9"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--level", "warning"], '2 2 4 5 6 7 last): "9"'),
        (["--level", "error"], '4 5 6 last): "9"'),
        (["--level", "error", "--grep", "[0-9]$"], "4 5 6"),
        (["--level", "warning", "--grep", "more"], "2"),
        (["--level", "critical"], ""),
        (["--level", "error", "--tail", "2"], 'last): "9"'),
    ],
)
def test_lines_of_a_level_with_those_that_belong_to_them(tmp_path, words, expected):
    written(tmp_path / "log-0", head(9) + LEVELLED)
    found = logs(tmp_path, *words)
    endings = expected.split()
    assert len(found) == len(endings)
    assert all(line.endswith(word) for line, word in zip(found, endings, strict=True))


def test_lines_around_those_that_match(tmp_path):
    written(tmp_path / "log-0", "".join(f"line {number}\n" for number in range(30)))
    found = logs(tmp_path, "--grep", "line (5|7|20)$", "-C", "1", "0")
    assert [line.removeprefix("line ") for line in found] == [
        *("4", "5", "6", "7", "8", "--", "19", "20", "21")
    ]


@pytest.mark.parametrize("words", [[], ["--merge"]])
def test_groups_of_different_ranks_are_apart_too(tmp_path, words):
    for rank in range(2):
        written(tmp_path / f"log-{rank}", f"{stamp(9 - rank)} a\nhit {rank}\nb\nc\n")
    found = logs(tmp_path, "--grep", "hit", "-C", "1", *words, ranks=2)
    endings = [line.split("] ")[1].split()[-1] for line in found]
    assert endings == ["a", "0", "b", "--", "a", "1", "b"]


def test_matches_of_several_ranks_are_merged_by_the_time_before_them(tmp_path):
    written(tmp_path / "log-0", f"{stamp(30)} a\nbad 1\n{stamp(10)} b\nx\nbad 4\n")
    written(tmp_path / "log-1", f"{stamp(25)} a\nbad 2\n{stamp(20)} b\ny\nbad 3\n")
    found = logs(tmp_path, "--merge", "--grep", "bad", ranks=2)
    assert found == ["[rank 0] bad 1", "[rank 1] bad 2", "[rank 1] bad 3", "[rank 0] bad 4"]


@pytest.mark.parametrize("words", [["--merge"], ["--grep", "."], ["--merge", "--grep", "."]])
def test_the_last_lines_of_what_was_chosen(tmp_path, words):
    for rank in range(2):
        written(tmp_path / f"log-{rank}.1", f"{stamp(9)} 1\n{stamp(8)} 2\n", 7)
        written(tmp_path / f"log-{rank}", f"{stamp(7 - rank)} 3\n")
    found = logs(tmp_path, *words, "--tail", "2", ranks=2)
    assert sorted(line.split()[-1] for line in found) == ["2", "2", "3", "3"]


def test_an_unfinished_line_is_chosen_too(tmp_path):
    written(tmp_path / "log-0", "one\nbad without end")
    assert logs(tmp_path, "--grep", "bad") == ["[rank 0] bad without end"]


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (["--grep", "x("], "expected a regular expression, found x(: "),
        (["--since", "yesterday"], "found yesterday"),
        (["--since", "5 days"], "found 5 days"),
        (["--since", "10"], "such as 30s, 10m, 2h, 1d, or a time"),
        (["--since", ".s"], "found .s"),
        (["--level", "warn"], "did you mean warning?"),
        (["-C", "3"], "--grep"),
        (["-f", "-C", "3", "--grep", "x"], "-f"),
    ],
)
def test_a_bad_choice_is_one_sentence(tmp_path, words, about):
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    assert about in refused(64, "logs", *words, "--state-file", str(path))


def test_a_log_that_is_not_there_is_told_and_does_not_hide_the_others(tmp_path):
    written(tmp_path / "log-1", "word\n")
    assert logs(tmp_path, "--grep", "word", ranks=2, code=1) == ["[rank 1] word"]


def test_the_reader_may_go_away(tmp_path):
    written(tmp_path / "log-0", "".join(f"{stamp(9)} line {n}\n" for n in range(200_000)))
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log-0")])
    for words in (["--merge"], ["--grep", "line"]):
        with subprocess.Popen(
            [*PROGRAM, "logs", *words, "--state-file", str(path)],
            env=ENVIRON,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as printing:
            assert printing.stdout
            assert printing.stderr
            assert printing.stdout.readline().endswith(b" line 0\n")
            printing.stdout.close()
            assert printing.wait(DEADLINE_SECONDS) == -signal.SIGPIPE
            assert printing.stderr.read() == b""


@pytest.mark.parametrize("words", [["--merge"], ["--merge", "--grep", "even"]])
def test_lines_are_followed_through_rotations(tmp_path, words):
    """Every line of both ranks once, in the order of each rank, while a writer rotates."""
    files = []
    for rank in range(2):
        path = tmp_path / f"log-{rank}"
        files.append(LogFile(path, Rotation(4000, 50), lambda: head(0).encode()))
        files[-1].open()
    listed = [rank_of(tmp_path / f"log-{rank}", rank) for rank in range(2)]
    state = own_state(tmp_path / "state", ranks=listed)
    with subprocess.Popen(
        [*PROGRAM, "logs", "-f", *words, "--state-file", str(state)],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        for number in range(1000):
            for file in files:
                parity = "odd" if number % 2 else "even"
                file.write(f"{stamp(0)} {parity} {number}".encode())
                file.write(b"\n")
            time.sleep(0.001)
        own_state(state, ranks=listed, phase="ended", exit_code=0)
        printed, _ = following.communicate(timeout=DEADLINE_SECONDS)
    assert files[0].rotations > 5
    step = 1 + ("even" in words)
    for rank in range(2):
        mine = [line for line in printed.splitlines() if line.startswith(f"[rank {rank}]")]
        told = [int(line.split()[-1]) for line in mine if "ascend_supervisor" not in line]
        assert told == list(range(0, 1000, step))


@pytest.mark.thorough
def test_files_are_searched_while_they_rotate(tmp_path):
    """What was there at the start is found once, whatever is renamed meanwhile."""
    file = LogFile(tmp_path / "log-0", Rotation(20_000, 1000), lambda: head(0).encode())
    file.open()
    done = 0
    for _ in range(10):
        for _ in range(300):
            file.write(f"{stamp(0)} word {done}\n".encode())
            done += 1
        state = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log-0")])
        with (
            (tmp_path / "found").open("wb") as to,
            subprocess.Popen(
                [*PROGRAM, "logs", "--grep", "word", "--state-file", str(state)],
                env=ENVIRON,
                stdout=to,
            ) as searching,
        ):
            before = done
            while searching.poll() is None:
                file.write(f"{stamp(0)} word {done}\n".encode())
                done += 1
                time.sleep(0.0005)
        found = [int(line.split()[-1]) for line in (tmp_path / "found").read_text().splitlines()]
        assert found == list(range(len(found)))
        assert len(found) >= before
