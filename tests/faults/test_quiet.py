"""While the ranks are silent, so are we: a platform may watch what the container writes.

``QUIET_SECONDS=60`` looks for longer.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ascend_supervisor.cluster.made_table import standalone
from ascend_supervisor.metrics.metrics_file import CHOSEN, WRITE_SECONDS
from ascend_supervisor.workers.descendants import EARLY_LOOKS
from tests.ports import free_port
from tests.running import DEADLINE_SECONDS, Running, python, wait_until

QUIET_SECONDS = float(os.environ.get("QUIET_SECONDS", "10"))
A_SECOND = 2
"""Wake-ups that are allowed in a second, by all our threads and the guardian together."""
WHILE_FOLLOWING = 20
"""The same with --follow-cluster: two threads and the loop.

On a busy machine they also sleep for the interpreter's lock, which another one of them holds: 10.2
in a second were seen with eight processes for each core.
"""
WAKE_UPS_OF_A_WRITE = 5
"""The writing thread's: it is woken, waits for more changes, and writes a file.

For each further file it may sleep for the interpreter's lock once more.
"""
SETTLED_SECONDS = 2.0
"""Without a write for so long, the start is over."""
SILENT = (
    *("--standalone", "2", "--console", "json", "--hang-timeout", "600", "--watchdog", "600"),
    *("--", "sh", "-c", "echo up; exec sleep 600"),
)

pytestmark = pytest.mark.parametrize("way", ["ordinary"], indirect=True)

CALL = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(.*)$")
WAITS = frozenset(
    {
        *("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
        *("nanosleep", "clock_nanosleep", "restart_syscall", "rt_sigtimedwait", "futex", "pause"),
    }
)
WRITES = frozenset(
    {
        *("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"),
        *("sendfile", "splice", "copy_file_range", "rename", "renameat", "renameat2", "unlink"),
        *("unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink", "symlinkat"),
        *("truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "sync", "syncfs"),
        *("utimensat", "chmod", "fchmod", "fchmodat", "creat", "mknod", "mknodat"),
    }
)
AT_ONCE = re.compile(r"epoll_wait\(.*, 0\) += ")
"""A look that does not wait."""
FOR_WRITING = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND)\b")


def writes_in(trace: Iterable[str]) -> list[str]:
    """The calls that write, or open something for it."""
    return [
        call
        for call in trace
        if (found := CALL.match(call))
        and (found[2] in WRITES or (found[2].startswith("open") and FOR_WRITING.search(found[3])))
    ]


def wake_ups_in(trace: Iterable[str]) -> list[str]:
    """The returns of calls that wait; those of two threads may be told in two lines each."""
    returns, wakers = [], set[str]()
    for call in trace:
        if (found := CALL.match(call)) is None or found[2] not in WAITS:
            continue
        if "FUTEX_WAKE" in call:
            wakers |= {found[1]} if "<unfinished" in call else set()
        elif found[1] in wakers and "resumed>" in call:
            wakers.discard(found[1])
        elif "<unfinished" not in call and not AT_ONCE.search(call):
            returns.append(call)
    return returns


@pytest.mark.parametrize(
    ("call", "writes", "wakes"),
    [
        ('7 write(1, "x", 1) = 1', 1, 0),
        ('7 openat(AT_FDCWD, "/a", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3', 1, 0),
        ('7 openat(AT_FDCWD, "/a", O_RDONLY|O_CLOEXEC) = 3', 0, 0),
        ('7 rename("/a", "/b") = 0', 1, 0),
        ("7 epoll_wait(3, [], 4, 987) = 0", 0, 1),
        ("7 epoll_wait(3, [], 4, 0)           = 0", 0, 0),
        ("7 epoll_wait(3,  <unfinished ...>", 0, 0),
        ("7 <... epoll_wait resumed>[], 4, 987) = 0", 0, 1),
        ("7 futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1", 0, 0),
        ("8 <... futex resumed>) = 0", 0, 1),
        ('8 stat("/a", {st_mode=S_IFREG|0644, ...}) = 0', 0, 0),
        ("8 +++ exited with 0 +++", 0, 0),
        ("8 futex(0x7f, FUTEX_WAKE_PRIVATE, 1 <unfinished ...>\n8 <... futex resumed>) = 1", 0, 0),
        ("8 futex(0x7f, FUTEX_WAIT, 0, NULL <unfinished ...>\n8 <... futex resumed>) = 0", 0, 1),
    ],
)
def test_a_call_is_known_for_what_it_is(way, call, writes, wakes):
    trace = call.splitlines()
    assert (len(writes_in(trace)), len(wake_ups_in(trace))) == (writes, wakes)


def silent(job: Running) -> list[int]:
    """The supervisor and its guardian, once all ranks are silent and the start is over."""
    for rank in (0, 1):
        job.wait_for("output", rank=rank, msg="up")
    ours = [job.pid, *job.guardians]
    assert len(ours) == 2
    since, before = time.monotonic(), written(ours)
    end = since + DEADLINE_SECONDS
    while time.monotonic() - since < SETTLED_SECONDS:
        time.sleep(0.1)
        assert time.monotonic() < end
        if (now := written(ours)) != before:
            since, before = time.monotonic(), now
    time.sleep(EARLY_LOOKS[-1])  # until then, what the ranks have started is looked for
    return ours


WRITTEN = ("syscw", "wchar", "write_bytes")
READ = ("syscr", "rchar", "read_bytes")


def counted(pids: Iterable[int], names: Sequence[str]) -> list[dict[str, str]]:
    """Counters of these processes' reads and writes."""
    found = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        facts = dict(line.split(": ") for line in lines)
        found.append({name: facts[name] for name in names})
    return found


def written(pids: Iterable[int]) -> list[dict[str, str]]:
    """How often and how much these processes have written."""
    return counted(pids, WRITTEN)


def switches(pids: Iterable[int]) -> int:
    """How often all their threads have gone to sleep so far."""
    return sum(
        int(line.split()[1])
        for pid in pids
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize("asked", [False, True], ids=["", "address"])
def test_threads_and_guardian_sleep_while_the_ranks_are_silent(bad_day, asked):
    """Also if figures are served, and nobody asks."""
    job = bad_day(*(("--metrics-address", address()) if asked else ()), *SILENT)
    ours = silent(job)
    before, slept, began = written(ours), switches(ours), time.monotonic()
    time.sleep(QUIET_SECONDS)
    slept, took = switches(ours) - slept, time.monotonic() - began
    assert written(ours) == before
    assert slept <= A_SECOND * took + 1
    job.send(signal.SIGTERM)
    assert job.end() == 143


@pytest.mark.parametrize(
    ("option", "given", "file", "files"),
    [
        ("--metrics-file", "a.prom", "a.prom", 1),
        ("--metrics-npu-exporter", ".", "ascend_supervisor_phase.json", len(CHOSEN)),
    ],
)
def test_figures_are_written_every_15_s_and_cost_few_wake_ups(
    bad_day, tmp_path, option, given, file, files
):
    path = tmp_path / file
    job = bad_day(option, str(tmp_path / given), *SILENT)
    ours = silent(job)
    versions = {path.stat().st_ino}
    slept, began = switches(ours), time.monotonic()
    while (took := time.monotonic() - began) < WRITE_SECONDS + 5:
        time.sleep(0.5)
        versions.add(path.stat().st_ino)
    slept = switches(ours) - slept
    assert len(versions) in {2, 3}
    of_a_write = WAKE_UPS_OF_A_WRITE + files - 1
    assert slept <= A_SECOND * took + 1 + of_a_write * (len(versions) - 1)
    job.send(signal.SIGTERM)
    assert job.end() == 143


TRAINS = """
import os, time
for step in range(1, 21):
    os.write(1, b" iteration %8d/     900 | consumed samples: 16 | lm loss: 2.3E+00 |\\n" % step)
    time.sleep(0.02)
os.write(1, b"up\\n")
time.sleep(600)
"""
"""A stall would be told a minute after the last step."""


@pytest.mark.parametrize(
    "command", [SILENT[-3:], tuple(python(TRAINS)[1:])], ids=["silent", "steps"]
)
def test_who_waits_for_steps_is_not_woken_more_often_than_who_reads_none(bad_day, command):
    options = ("--standalone", "2", "--console", "json")
    jobs = [
        bad_day(*options, "--progress", progress, "--", *command, home=progress)
        for progress in ("auto", "off")
    ]
    ours = [silent(job) for job in jobs]
    seen: list[tuple[int, int]] = []
    while len(seen) < 3 and not any(auto <= off + 2 for auto, off in seen):
        before = [switches(pids) for pids in ours]
        time.sleep(QUIET_SECONDS)
        auto, off = (switches(pids) - slept for pids, slept in zip(ours, before, strict=True))
        seen.append((auto, off))
    # The periods need not begin together; on a busy machine one of the two may wait more by chance.
    assert any(auto <= off + 2 for auto, off in seen), seen
    for job in jobs:
        job.send(signal.SIGTERM)
        assert job.end() == 143
    assert not jobs[0].all("training.stalled")


def test_the_files_of_the_cluster_are_watched_without_a_read_or_a_write(bad_day, tmp_path):
    """Each is asked for its time stamps once a second, in a thread."""
    table, reset = tmp_path / "table.json", tmp_path / "reset.json"
    table.write_bytes(standalone(2))
    reset.write_text('{"RankList": [], "RetryTime": 0}')
    follow = ("--follow-cluster", "--rank-table", str(table), "--reset-file", str(reset))
    job = bad_day(*follow, *SILENT[2:])
    ours = silent(job)
    before, slept, began = counted(ours, WRITTEN + READ), switches(ours), time.monotonic()
    time.sleep(QUIET_SECONDS)
    slept, took = switches(ours) - slept, time.monotonic() - began
    assert counted(ours, WRITTEN + READ) == before
    assert slept <= WHILE_FOLLOWING * took + 1
    reset.write_text('{"RankList": [], "GracefulExit": 1}')
    assert job.end() == 69


def test_while_the_ranks_are_silent_nothing_is_written_and_we_sleep(bad_day, tmp_path):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is missing (Debian's package strace)")
    job = bad_day(*SILENT)
    ours = silent(job)
    path = tmp_path / "trace"
    words = [strace, "-f", "-o", str(path), *(word for pid in ours for word in ("-p", str(pid)))]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        try:
            wait_until(lambda: tracer.poll() is not None or all(map(is_traced, ours)))
            if tracer.poll() is not None:
                assert tracer.stderr is not None
                pytest.skip(f"strace cannot attach here: {tracer.stderr.read().strip()}")
            time.sleep(0.2)  # a wait that the attaching has interrupted begins anew
            skipped, began = len(path.read_text().splitlines()), time.monotonic()
            time.sleep(QUIET_SECONDS)
            calls = path.read_text().splitlines()[skipped:]
            took = time.monotonic() - began
        finally:
            tracer.send_signal(signal.SIGINT)
    assert writes_in(calls) == []
    assert 1 <= len(wake_ups_in(calls)) <= A_SECOND * took + 1
    job.send(signal.SIGTERM)
    assert job.end() == 143


def is_traced(pid: int) -> bool:
    return all(
        "TracerPid:\t0\n" not in status.read_text()
        for status in Path(f"/proc/{pid}/task").glob("*/status")
    )
