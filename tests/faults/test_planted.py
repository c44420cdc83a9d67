"""Others may write in the log directory, and have been there before: they neither read nor ruin."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running import Running

ATTACKER = 1234
PRECIOUS = b"precious\n"
JOB = "modelarts-job-test"
LOG = f"{JOB}-proc-rank-0-device-0.txt"
STATE = f"{JOB}-supervisor-job-test-0.json"
EVENTS = f"{JOB}-supervisor-job-test-0.events.jsonl"
WORDS = "what only the user of this job may know"
LINES = 2000
TALK = f"""
talk() {{ i=0; while [ $i -lt {LINES // 2} ]; do echo "line $i {WORDS}"; i=$((i+1)); done; }}
talk
tries=300
until tail -n 1 "$0" | grep -q "line {LINES // 2 - 1} " || [ $tries -eq 0 ]; do
    sleep 0.01; tries=$((tries-1))
done
talk
"""
"""Twice what makes a log due for its rotation; the first half is in the log, ``$0``, by then."""
ROTATED = ("--log-max-size", "32KiB", "--log-keep", "9")
SAFE, REFUSED = 0, 73

# As PID 1 a supervisor makes its files in the same way.
WAYS = pytest.mark.parametrize("way", ["ordinary", "unprivileged"], indirect=True)


@dataclass
class Trap:
    """A log directory like /tmp, in which another user plants; the victim's files lie elsewhere."""

    place: Path
    uid: int

    def __post_init__(self) -> None:
        for directory in (self.place, self.home, self.home / "rank_0"):
            directory.mkdir()
        for name in ("file", "empty", "jobstart_hccl.json", "rank_0/generation_0.json"):
            (self.home / name).write_bytes(b"" if name == "empty" else PRECIOUS)
            (self.home / name).chmod(0o600)
        for path in (self.place, self.home, *self.home.rglob("*")):
            os.chown(path, self.uid, -1)
        self.logs.mkdir()
        self.logs.chmod(0o1777)
        self.before = self.victims()

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def logs(self) -> Path:
        return self.place / "log"

    def victims(self) -> dict[str, tuple[int, int, bytes]]:
        """Owner, mode and content of everything in the victim's home."""
        return {
            str(path): (found.st_uid, found.st_mode, b"" if path.is_dir() else path.read_bytes())
            for path in (self.home, *self.home.rglob("*"))
            for found in [path.lstat()]
        }

    def link(self, name: str, target: Path) -> None:
        (self.logs / name).symlink_to(target)
        os.chown(self.logs / name, ATTACKER, -1, follow_symlinks=False)

    def hard_link(self, name: str, target: Path) -> None:
        (self.logs / name).hardlink_to(target)

    def file(self, name: str, content: bytes = b"") -> None:
        (self.logs / name).write_bytes(content)
        (self.logs / name).chmod(0o666)
        os.chown(self.logs / name, ATTACKER, -1)

    def directory(self, name: str) -> None:
        (self.logs / name).mkdir()
        (self.logs / name).chmod(0o777)
        os.chown(self.logs / name, ATTACKER, -1)

    def fifo(self, name: str) -> None:
        os.mkfifo(self.logs / name)
        (self.logs / name).chmod(0o666)
        os.chown(self.logs / name, ATTACKER, -1)

    def own(self, name: str) -> None:
        """What an earlier start of the job has left."""
        (self.logs / name).write_bytes(b"of an earlier start\n")
        os.chown(self.logs / name, self.uid, -1)

    def stolen(self) -> list[str]:
        """The attacker's files that hold the job's words, and ours that he could swap."""
        found = []
        for path in self.logs.rglob("*") if not self.logs.is_symlink() else ():
            mine, above = path.lstat(), path.parent.lstat()
            if mine.st_uid == ATTACKER and stat.S_ISREG(mine.st_mode):
                if WORDS.encode() in path.read_bytes():
                    found.append(f"{path} holds our words")
            elif mine.st_uid != ATTACKER and above.st_uid == ATTACKER:
                found.append(f"{path} lies in another user's directory")
        return found

    def kept(self) -> int:
        """How many of the job's lines stand in logs of its own."""
        return sum(
            path.read_bytes().count(WORDS.encode())
            for path in self.logs.glob(f"{LOG}*")
            if path.lstat().st_uid == self.uid and stat.S_ISREG(path.lstat().st_mode)
        )


def logs_as_link(trap: Trap) -> None:
    """The directory itself is a link in a directory that everybody may write."""
    trap.place.chmod(0o1777)
    trap.logs.rmdir()
    trap.logs.symlink_to(trap.home)
    os.chown(trap.logs, ATTACKER, -1, follow_symlinks=False)


def logs_of_another(trap: Trap) -> None:
    """Another user was the first to make the directory, and lets everybody in."""
    trap.place.chmod(0o1777)
    os.chown(trap.logs, ATTACKER, -1)


def job_directory(trap: Trap, *names: str) -> None:
    """The job's directory is the attacker's, and so is what in it leads to the victim's home."""
    trap.directory(JOB)
    for name in names:
        trap.link(f"{JOB}/{name}", trap.home)


def older_link(trap: Trap) -> None:
    trap.own(LOG)
    trap.link(f"{LOG}.1", trap.home / "file")


def older_directory(trap: Trap) -> None:
    trap.own(LOG)
    trap.directory(f"{LOG}.1")


def temporary(trap: Trap) -> None:
    """Names that others give to a file that they are about to put in the place of another."""
    for final in (LOG, STATE):
        for name in (f".{final}.tmp", f"{final}.tmp", f"{final}~", f".{final}", f"{final}.new"):
            trap.link(name, trap.home / "file")


TRAPS: dict[str, Callable[[Trap], None]] = {
    "log: link to a file": lambda trap: trap.link(LOG, trap.home / "file"),
    "log: link to nothing": lambda trap: trap.link(LOG, trap.home / "new"),
    "log: hard link": lambda trap: trap.hard_link(LOG, trap.home / "file"),
    "log: hard link to an empty file": lambda trap: trap.hard_link(LOG, trap.home / "empty"),
    "log: another's file": lambda trap: trap.file(LOG, b"bait\n"),
    "log: another's empty file": lambda trap: trap.file(LOG),
    "log: directory": lambda trap: trap.directory(LOG),
    "older log: link": older_link,
    "older log: directory": older_directory,
    "still older log: link": lambda trap: trap.link(f"{LOG}.2", trap.home / "file"),
    "state: link": lambda trap: trap.link(STATE, trap.home / "file"),
    "state: directory": lambda trap: trap.directory(STATE),
    "state: fifo": lambda trap: trap.fifo(STATE),
    "temporary": temporary,
    "job directory: link": lambda trap: trap.link(JOB, trap.home),
    "job directory: another's": job_directory,
    "table: link": lambda trap: job_directory(trap, "rank_table"),
    "errors: link": lambda trap: job_directory(trap, "errors"),
    "CANN: link": lambda trap: job_directory(trap, "ascend"),
    "log directory: link": logs_as_link,
    "log directory: another's": logs_of_another,
}
AT_A_TIME = 7


@WAYS
@pytest.mark.parametrize("first", range(0, len(TRAPS), AT_A_TIME))
def test_what_was_planted_is_neither_written_nor_followed(bad_day, way, place, first):
    set_up = {}
    for number, (name, plant) in enumerate([*TRAPS.items()][first : first + AT_A_TIME]):
        trap = Trap(place / f"trap{number}", way.uid)
        plant(trap)
        set_up[name] = trap, start(bad_day, trap)
    told = [f"{name}: {what}" for name, case in set_up.items() for what in complaints(*case)]
    assert not told, "\n".join(told)


def start(bad_day: Callable[..., Running], trap: Trap) -> Running:
    return bad_day(
        *("--standalone", "1", "--log-dir", str(trap.logs), "--work-dir", str(trap.place / "work")),
        *(*ROTATED, "--", "sh", "-c", TALK, str(trap.logs / LOG)),
        environ={"MA_MOUNT_PATH": ""},
    )


def complaints(trap: Trap, job: Running) -> list[str]:
    """What is wrong after a job among planted files: it may refuse in a sentence, or be safe."""
    code = job.end()
    found = [*trap.stolen(), *(event["msg"] for event in job.all("supervisor.defect"))]
    if changed := trap.before.items() ^ trap.victims().items():
        found.append(f"the victim's files before and after: {sorted(changed)}")
    if "Traceback" in job.stderr:
        found.append(job.stderr)
    sentences = job.stderr.splitlines()
    if code == REFUSED and not any(str(trap.logs) in sentence for sentence in sentences):
        found.append(f"it does not say what it refuses: {sentences}")
    elif code == SAFE and trap.kept() != LINES:
        found.append(f"only {trap.kept()} lines are kept: {job.all('log.lost')}")
    elif code not in {SAFE, REFUSED}:
        found.append(f"exit code {code}: {sentences}")
    return found


@WAYS
def test_a_volume_that_everybody_may_write_is_no_trap(bad_day, way, place):
    trap = Trap(place / "trap", way.uid)
    trap.logs.chmod(0o777)  # as Kubernetes makes an emptyDir: nothing protects what lies in it
    os.chown(trap.logs, ATTACKER, -1)
    job = start(bad_day, trap)
    assert job.end() == SAFE
    assert trap.kept() == LINES


@WAYS
def test_a_fifo_in_the_logs_place_tells_nobody_anything(bad_day, way, place):
    trap = Trap(place / "trap", way.uid)
    trap.fifo(LOG)
    listening = os.open(trap.logs / LOG, os.O_RDONLY | os.O_NONBLOCK)
    job = start(bad_day, trap)
    assert complaints(trap, job) == []
    assert os.read(listening, 1 << 16) == b""
    os.close(listening)


@WAYS
def test_a_termination_log_is_not_written_through_a_planted_link(bad_day, way, place):
    trap = Trap(place / "trap", way.uid)
    trap.link("link", trap.home / "file")
    trap.link("nothing", trap.home / "new")
    trap.directory("directory")
    log = "--termination-log"
    jobs = [
        bad_day("--standalone", "1", log, str(trap.logs / name), "--", "false", home=f"of {name}")
        for name in ("link", "nothing", "directory")
    ]
    for job in jobs:
        assert job.end() == 1
        assert "termination log" in job.stderr or "cannot be written" in job.stderr
        assert not job.all("supervisor.defect")
    assert trap.victims() == trap.before


MODES = {
    "directory": 0o750,
    LOG: 0o640,
    f"{LOG}.1": 0o640,
    STATE: 0o644,
    f"{STATE}.lock": 0o600,
    EVENTS: 0o640,
    "jobstart_hccl.json": 0o644,
}
"""Promised, of what the supervisor makes; the umask may take away, and never adds."""


@WAYS
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_are_as_promised_whatever_the_umask_is(bad_day, way, place, umask):
    deep = place / "a" / "b"
    before = ("sh", "-c", f'umask {umask:o}; exec "$@"', "sh")
    job = bad_day(
        *("--standalone", "1", "--log-dir", str(deep / "log"), "--work-dir", str(deep / "work")),
        *(*ROTATED, "--", "sh", "-c", f'umask; echo "$SECRET"; {TALK}', str(deep / "log" / LOG)),
        environ={"MA_MOUNT_PATH": "", "SECRET": "not for the state file"},
        before=before,
    )
    assert job.end() == 0
    assert job.said(0)[0] == f"{umask:04o}"  # the ranks' own files are the ranks' business
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (place / "a").rglob("*")}
    found[place / "a"] = stat.S_IMODE((place / "a").stat().st_mode)
    assert {name for name in MODES if name != "directory"} <= {path.name for path in found}
    wrong = {
        str(path): oct(mode)
        for path, mode in found.items()
        if mode | promised(path) != promised(path) or promised(path) & ~umask & ~mode
    }
    assert wrong == {}
    assert "not for the state file" not in (deep / "log" / STATE).read_text()


def promised(path: Path) -> int:
    name = re.sub(r"\.[0-9]+$", ".1", path.name)
    return MODES["directory"] if path.is_dir() else MODES[name]


@WAYS
def test_temporary_names_cannot_be_foretold(bad_day, way, place):
    logs, table = place / "log", place / "log" / JOB / "rank_table"
    table.mkdir(parents=True)
    for directory in (logs, logs / JOB, table):
        os.chown(directory, way.uid, -1)
    runs = []
    for _ in range(2):
        with made_in(logs, table) as names:
            job = bad_day(
                *("--standalone", "1", "--log-dir", str(logs), "--work-dir", str(place / "work")),
                *("--", "true"),
                environ={"MA_MOUNT_PATH": ""},
            )
            assert job.end() == 0
            usual = {LOG, STATE, f"{STATE}.lock", EVENTS, "jobstart_hccl.json", "errors", "ascend"}
            runs.append(set(names()) - usual)
    first, second = runs
    assert first
    assert second
    assert not first & second
    for name in first | second:
        assert re.search(r"\.[a-z0-9_]{8,}$", name), name


IN_CREATE = 0x100
EVENT = struct.Struct("iIII")


class made_in:  # noqa: N801  (reads as a context)
    """Gives a function that gives the names of everything that is made in these directories."""

    def __init__(self, *directories: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK)
        assert self._fd >= 0
        for directory in directories:
            name = os.fsencode(directory)
            assert self._libc.inotify_add_watch(self._fd, name, IN_CREATE) >= 0

    def __enter__(self) -> Callable[[], Iterator[str]]:
        return self._names

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _names(self) -> Iterator[str]:
        data, here = os.read(self._fd, 1 << 20), 0
        while here < len(data):
            *_, length = EVENT.unpack_from(data, here)
            here += EVENT.size + length
            yield data[here - length : here].rstrip(b"\0").decode()
