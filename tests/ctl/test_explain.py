"""``explain``: what logs show, from files, directories, archives and pipes that nobody trusts."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ascend_supervisor.causes.diagnosis import diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.ctl.archived_logs import HEADER_BYTES, archived_logs
from tests.cost import cost
from tests.ctl.calling import ENVIRON, PROGRAM, Answer, ctl, own_state, rank_of, refused
from tests.running import DEADLINE_SECONDS

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
FULL = f"{RAISED}OSError: [Errno 28] No space left on device: 'ckpt.pt'\n"
LINK = "EI0006: Getting socket times out. Reason: Remote Rank did not send, remote rank:[5]\n"
DISK = diagnosis_by(CAUSES["disk-full"], None)
PLOG = (
    "[{level}] RUNTIME(4711,python):2026-11-26-10:00:00.000.00{at} [engine.cc:1]{at} Report: {what}"
)


def log(place: Path, name: str, text: str, age: float = 0.0) -> Path:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


def told(*files: object, environ: Mapping[str, str] | None = None) -> str:
    found = ctl("explain", *map(str, files), environ=environ)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


def explained(*files: object) -> list[tuple[str, str | None, str | None]]:
    """Of each log its last part, the id of the cause, and the line."""
    found = ctl("explain", "--json", *map(str, files))
    return [
        (one["file"].rpartition("/")[2], (one["diagnosis"] or {"id": None})["id"], one["line"])
        for one in json.loads(found.stdout)
    ]


def test_the_cause_of_a_log_is_told_with_what_to_do_where_it_shows_and_where_more_is(tmp_path):
    path = log(tmp_path, "job-proc-rank-3-device-3.txt", f"step 1\n{FULL}")
    head, place, line = told(path).splitlines()
    assert head == f"{path}: {DISK.told('en')}"
    assert place == "  rank 3; see docs/causes.md#disk-full"
    assert line == "  OSError: [Errno 28] No space left on device: 'ckpt.pt'"


@pytest.mark.parametrize("words", [("--language", "zh"), ()])
def test_it_is_told_in_the_language_of_the_reader(tmp_path, words):
    path = log(tmp_path, "a.log", FULL)
    found = ctl("explain", *words, str(path), environ={"LANG": "zh_CN.UTF-8"}).stdout
    assert f"{path}：{DISK.told('zh')}" in found
    assert "参见 docs/causes.zh.md#disk-full" in found


def test_a_consequence_names_the_rank_that_it_follows_from(tmp_path):
    assert told(log(tmp_path, "a.log", LINK)).splitlines()[1] == (
        "  a consequence: the cause is rank 5, or the network between the two; "
        "see docs/causes.md#ei0006"
    )


def test_causes_come_before_consequences_and_what_many_ranks_tell_is_told_once(tmp_path):
    lost = [log(tmp_path, f"rank-{rank}.log", LINK) for rank in (0, 1, 2, 7)]
    full = log(tmp_path, "rank-5.log", FULL)
    first, second = told(*lost, full).split("\n\n")
    assert first.startswith(f"{full}: {DISK.text}; ")
    assert second.startswith(f"{lost[0]} and 3 more: ")
    assert "; told by 4 ranks: 0-2, 7; " in second


def test_of_causes_the_one_that_leads_to_the_other_comes_first(tmp_path):
    killed = log(tmp_path, "a.log", f"{RAISED}{WORKER_KILLED}\n")
    oom = log(tmp_path, "b.log", "Memory cgroup out of memory: Killed process 4711 (python3)\n")
    assert [one[1] for one in explained(killed, oom)] == ["oom-killed", "dataloader-worker-killed"]


WORKER_KILLED = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."


def test_the_log_of_a_launcher_with_the_lines_of_all_ranks_tells_whose_the_cause_is(tmp_path):
    lines = [f"[rank{rank}]: {line}" for rank in (2, 0) for line in FULL.splitlines()]
    lost = [f"[rank1]: {line}" for line in (*RAISED.splitlines(), f"RuntimeError: {LINK}")]
    path = log(tmp_path, "torchrun.log", "\n".join([*lost, *lines]))
    head, place, _ = told(path).splitlines()
    assert head.endswith(" [disk-full]")
    assert place.startswith("  rank 2; ")


def test_the_mark_of_a_line_comes_before_the_name_of_a_directory(tmp_path):
    place = tmp_path / "deepseek_rank_8"
    place.mkdir()
    log = place / "out.log"
    frames = "Traceback (most recent call last):", '  File "train.py", line 1, in <module>'
    lines = (*frames, "KeyError: 'labels'")
    log.write_text("".join(f"[rank1]: {line}\n" for line in lines))
    found = ctl("explain", "--json", str(log))
    assert '"rank": 1' in found.stdout


def test_of_a_log_of_several_generations_the_last_one_counts(tmp_path):
    begins = "[ascend_supervisor] 2026-11-26T10:00:00.000000+00:00 generation {} of rank 0 begins\n"
    text = f"{begins.format(0)}{FULL}{begins.format(1)}{LINK}"
    assert explained(log(tmp_path, "rank-0.log", text))[0][1] == "EI0006"
    assert explained(log(tmp_path, "rank-0.log", f"{text}{begins.format(2)}fine\n"))[0][1] is None


def test_of_a_log_of_cann_the_first_error_counts_and_no_other_record(tmp_path):
    lines = [
        PLOG.format(level="WARNING", at=1, what="EL0004: no memory"),
        PLOG.format(level="ERROR", at=2, what="EL0009: no stream"),
        PLOG.format(level="ERROR", at=3, what="EI0004: the rank table"),
    ]
    path = log(tmp_path, "rank_3/debug/plog/plog-4711_1.log", "\n".join(lines))
    assert explained(path) == [("plog-4711_1.log", "EL0009", lines[1])]
    assert "  rank 3; see " in told(path)


def test_a_directory_is_read_with_all_below_it_the_newest_first_and_without_links(tmp_path):
    top, outside = tmp_path / "log", log(tmp_path, "elsewhere/a.log", FULL)
    log(top, "rank_0/debug/plog/plog-1_1.log", PLOG.format(level="ERROR", at=1, what="EL0009:"), 9)
    log(top, "rank_1/debug/plog/plog-2_1.log", PLOG.format(level="ERROR", at=1, what="EI0004:"), 1)
    log(top, "supervisor.json", FULL)
    (top / "link.log").symlink_to(outside)
    (top / "directory").symlink_to(outside.parent)
    os.mkfifo(top / "pipe.log")
    assert [one[:2] for one in explained(top)] == [
        ("plog-2_1.log", "EI0004"),
        ("plog-1_1.log", "EL0009"),
    ]


def test_where_no_file_is_named_the_log_dir_of_the_supervisor_is_read(tmp_path):
    log(tmp_path, "d/job-proc-rank-3-device-3.txt", FULL)
    other = log(tmp_path, "other.log", LINK)
    words = "--log-dir", str(tmp_path / "d")
    found = ctl("explain", *words).stdout
    assert "disk-full" in found
    assert ctl(*words, "explain").stdout == ctl("explain", words[1]).stdout == found
    assert "EI0006" in ctl("explain", str(other), *words).stdout


def test_logs_without_a_cause_are_counted_unless_they_are_named_or_say_something(tmp_path):
    for number in range(3):
        log(tmp_path, f"d/{number}.log", "step 1\n")
    log(tmp_path, "d/9.log", f"{RAISED}mine.StrangeError: hm\n", 5)
    named = log(tmp_path, "a.log", "step 1\n")
    found = ctl("explain", str(tmp_path / "d"), str(named))
    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        f"{tmp_path}/d/9.log: no known cause; it ended with: mine.StrangeError: hm",
        f"{named}: no known cause",
        "3 other logs: no known cause",
    ]


def test_where_a_signal_came_is_told(tmp_path):
    stack = 'Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n'
    fatal = f"Fatal Python error: Aborted\n\n{stack}"
    ((_, id_, line),) = explained(log(tmp_path, "a.log", fatal))
    assert (id_, line) == (None, "Aborted, at a.py, line 3, in f")


def test_a_rank_that_its_launcher_names_is_told(tmp_path):
    ended = "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 4711)\n"
    torchrun = f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n{ended}"
    path = log(tmp_path, "a.log", f"[rank0]: RuntimeError: {LINK}{RAISED}{torchrun}")
    ((_, id_, line),) = explained(path)
    assert (id_, line) == (None, "rank 3 was killed by SIGKILL")


def test_without_a_log_it_says_which_names_it_looks_for(tmp_path):
    found = ctl("explain", str(tmp_path))
    assert (found.returncode, found.stdout) == (1, "")
    assert "there is no log in it: expected names that end in .log, .txt" in found.stderr


def test_what_cannot_be_read_gives_64_and_the_others_are_told(tmp_path):
    missing, path = tmp_path / "none.log", log(tmp_path, "a.log", FULL)
    assert refused(64, "explain", str(missing)) == (
        f"ascend-supervisorctl: {missing} cannot be read: No such file or directory\n"
    )
    assert "not a regular file, but a character device" in refused(64, "explain", "/dev/zero")
    found = ctl("explain", str(missing), str(path))
    assert found.returncode == 64
    assert "[disk-full]" in found.stdout


def test_a_language_or_an_option_that_is_unknown_is_refused():
    assert "expected one of auto, en, zh" in refused(64, "explain", "--language", "fr", "a")
    assert "a FILE, - for stdin" in refused(64, "explain")


def piped(source: bytes | Path, *files: str) -> Answer:
    """What is told of a pipe that this fills, by a process of its own."""
    data = source.read_bytes() if isinstance(source, Path) else source
    found = subprocess.run(
        [*PROGRAM, "explain", *files],
        input=data,
        capture_output=True,
        env=ENVIRON,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    return Answer(found.returncode, found.stdout.decode(), found.stderr.decode())


def test_stdin_may_be_a_log_or_an_archive(tmp_path):
    found = piped(b"x\n" * 500_000 + FULL.encode(), "-")
    assert (found.returncode, found.stdout.partition(":")[0]) == (0, "stdin")
    found = piped(archive(("x/logs/a.log", FULL)), "-")
    assert found.stdout.startswith("x/logs/a.log: ")
    assert "[disk-full]" in piped(FULL.encode(), "/dev/stdin").stdout


# Archives


def archive(*members: tuple[str, str] | tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as tar:
        for one in members:
            if isinstance(one, tarfile.TarInfo):
                tar.addfile(one)
                continue
            member = tarfile.TarInfo(one[0])
            content = one[1].encode()
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def test_an_archive_of_collect_is_explained_without_unpacking_it(tmp_path):
    healthy = log(tmp_path, "job-proc-rank-0-device-0.txt", LINK)
    failed = log(tmp_path, "job-proc-rank-5-device-5.txt", FULL)
    ranks = [rank_of(healthy, 0, status=0), rank_of(failed, 5, status=1)]
    state = own_state(tmp_path / "state.json", phase="ended", exit_code=1, ranks=ranks)
    made = tmp_path / "x.tar.gz"
    assert ctl("collect", "-o", str(made), "--state-file", str(state)).returncode == 0
    found = [one for one in explained(made) if one[1]]
    assert [one[:2] for one in found] == [(failed.name, "disk-full"), (healthy.name, "EI0006")]


def test_of_an_archive_only_logs_are_read_and_no_links(tmp_path):
    link, hard = tarfile.TarInfo("x/logs/link.log"), tarfile.TarInfo("x/logs/hard.log")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "x/logs/a.log"
    made = tmp_path / "x.tar.gz"
    others = ("x/report.txt", "x/machine/m.txt", "x/environment_check/npu_info_after.txt", "x/a.c")
    made.write_bytes(archive(link, hard, *((name, FULL) for name in others), ("/../a.log", FULL)))
    assert explained(made) == [("a.log", "disk-full", FULL.splitlines()[-1])]


def test_what_was_read_of_a_torn_archive_counts(tmp_path):
    made = tmp_path / "x.tar"
    whole = gzip.decompress(archive(("x/logs/a.log", FULL), ("x/logs/b.log", "x" * 900_000)))
    made.write_bytes(whole[:400_000])
    found = ctl("explain", str(made))
    assert found.returncode == 0
    assert "x.tar cannot be read to its end as a tar archive: unexpected end of data" in (
        found.stderr
    )


@pytest.mark.parametrize("data", [b"\x1f\x8bno gzip", gzip.compress(FULL.encode())])
def test_what_is_compressed_and_no_archive_is_refused(tmp_path, data):
    (tmp_path / "a.log.gz").write_bytes(data)
    assert "as a tar archive: " in refused(64, "explain", str(tmp_path / "a.log.gz"))


def test_of_a_bomb_no_more_is_read_than_the_limit():
    bomb = archive(("a.log", FULL), ("b.log", "\0" * 50_000_000))
    assert len(bomb) < 1_000_000
    logs = archived_logs(io.BytesIO(bomb), bomb[:512], most=10_000_000)
    assert next(logs)[0] == "a.log"
    with pytest.raises(OSError, match="it holds more than 10000000 bytes"):
        next(logs)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_is_a_bomb_is_not_read(tmp_path, kind):
    head = tarfile.TarInfo("x")
    head.type, head.size = kind, 500 * HEADER_BYTES
    data = head.tobuf() + b"\0" * (2 * HEADER_BYTES)
    (tmp_path / "a.tar").write_bytes(data)
    assert f"it has a header of more than {HEADER_BYTES} bytes" in (
        refused(64, "explain", str(tmp_path / "a.tar"))
    )


def test_a_member_of_an_endless_size_ends_with_the_archive(tmp_path):
    head = tarfile.TarInfo("x/logs/a.log")
    head.size = 1 << 62
    (tmp_path / "a.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT) + FULL.encode())
    assert "unexpected end of data" in refused(64, "explain", str(tmp_path / "a.tar"))


# Sizes


def test_a_log_of_ten_gigabytes_costs_no_more_than_a_short_one(tmp_path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.seek(10 * 1000**3)
        file.write(f"\n{FULL}".encode())
    before = _bytes_read()
    assert explained(path)[0][1] == "disk-full"
    assert _bytes_read() - before < 2_000_000


def _bytes_read() -> int:
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("rchar:") + 1])


@pytest.mark.parametrize("letter", ["A", "[", " ", "\x1b", ":", "1"])
def test_a_line_of_one_character_costs_no_more_than_others(tmp_path, letter):
    path = log(tmp_path, "a.log", letter * 10_000_000)
    assert cost(lambda: ctl("explain", str(path)), times=1) < 2


def test_nothing_that_a_terminal_obeys_is_printed(tmp_path):
    evil = "OSError: [Errno 28] No space left on device\x1b]0;owned\x07\x9b2J\u202e" + "x" * 5000
    path = log(tmp_path, "a\x1b[2Jb.log", f"{RAISED}{evil}\n")
    found = told(path)
    assert found.replace("\n", "").isprintable()
    assert "…" not in found
    assert all(len(line) < 600 for line in found.splitlines())
    (member,) = json.loads(ctl("explain", "--json", str(path)).stdout)
    assert member["diagnosis"]["id"] == "disk-full"


# Several starts


def started(directory: Path, *words: str) -> None:
    """A job of one rank, from its start to its end."""
    program = sys.executable, "-m", "ascend_supervisor", "--standalone", "1", "--console", "none"
    subprocess.run(
        [*program, "--log-dir", str(directory), "--", sys.executable, "-c", *words],
        env=ENVIRON,
        timeout=DEADLINE_SECONDS,
        check=False,
        capture_output=True,
    )


def test_of_a_job_that_was_started_again_the_last_start_counts_unless_all_are_asked_for(tmp_path):
    logs = tmp_path / "logs"
    started(logs, "raise OSError(28, 'No space left on device')")
    started(logs, f"print({LINK!r}); raise SystemExit(1)")
    log(logs, "job-b-rank-7.log", FULL)  # nobody knows of which start it is
    told = ctl("explain", "--json", "--log-dir", str(logs))
    assert sorted(one["diagnosis"]["id"] for one in json.loads(told.stdout)) == [
        "EI0006",
        "disk-full",
    ]
    assert told.stderr.endswith("1 log of earlier starts left out; --all-starts takes them in\n")
    told = ctl("explain", "--json", "--all-starts", "--log-dir", str(logs))
    assert (len(json.loads(told.stdout)), told.stderr) == (3, "")
    kept = tmp_path / "a.tar.gz"
    ctl("collect", "-o", str(kept), "--log-dir", str(logs))
    assert [name for name, _, _ in explained(kept)] == ["job-proc-rank-0-device-0.txt"]
    earlier = logs / "job-proc-rank-0-device-0.txt.1"
    assert [name for name, _, _ in explained(earlier)] == [earlier.name]


def test_each_job_and_each_server_has_a_last_start_of_its_own(tmp_path):
    words = (
        "[ascend_supervisor] 2026-11-29T06:56:23+00:00 log of rank 0, job {}, supervisor process 1"
    )
    starts = [("a, pod-0", 1), ("a, pod-0", 2), ("a, pod-1", 1), ("b, pod-0", 1)]
    for at, (job, hour) in enumerate(starts):
        head = (
            f"{words.format(job)}, started 2026-11-29T0{hour}:00:00.000+00:00, start s1-p{hour}\n"
        )
        log(tmp_path, f"{at}.log", head + FULL, age=at)
    assert [name for name, _, _ in explained(tmp_path)] == ["1.log", "2.log", "3.log"]
