"""The rank table on a bad day: it flaps, is locked away, or lies on a mount that hangs or dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count, pairwise
from pathlib import Path

import pytest

from tests.faults.facilities import program
from tests.running import Running, wait_until

NAME = "jobstart_hccl.json"
SILENT = "the file system does not answer"
SHOW = ("--", "sh", "-c", 'sha256sum < "$RANK_TABLE_FILE"')


def table(status: str, *addresses: str) -> bytes:
    """A template 1 table of one server, which is handed on to the ranks byte for byte."""
    device = [
        {"device_id": str(rank), "device_ip": address, "rank_id": str(rank)}
        for rank, address in enumerate(addresses)
    ]
    server = {"server_id": "10.0.0.1", "device": device}
    whole = {"status": status, "version": "1.0", "server_count": "1", "server_list": [server]}
    return json.dumps(whole).encode()


GOOD = table("completed", "10.1.0.1", "10.1.0.2")
EARLIER = table("completed", "10.9.0.1", "10.9.0.2", "10.9.0.3")
FOREIGN = (
    Path(__file__).parents[1] / "data/rank_tables/template2-12-pods-unsorted.json"
).read_bytes()
NOT_READY = (
    b'{"status": "initializing"}',
    table("initializing", "10.9.0.1"),
    EARLIER[: len(EARLIER) // 2],
    GOOD[:-1],
    FOREIGN[:-20] + b"\xff",
    b"",
    None,
)
"""What a table goes through before it is completed; None: there is no file."""


class ConfigMap:
    """A ConfigMap as the kubelet mounts it: the file leads through ``..data``, which is swapped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._version = 0
        self.directory.mkdir()
        (self.directory / NAME).symlink_to(f"..data/{NAME}")

    def swap(self, content: bytes | None) -> None:
        data = self.directory / "..data"
        before = data.resolve()
        self._version += 1
        now = self.directory / f"..2024_{self._version}"
        now.mkdir()
        if content is not None:
            (now / NAME).write_bytes(content)
        link = self.directory / "..data_tmp"
        link.symlink_to(now.name)
        link.rename(data)
        if before != data:
            shutil.rmtree(before)


def ran_with(job: Running, document: bytes) -> bool:
    """Whether every rank was handed ``document``, and the log says so."""
    digest = sha256(document).hexdigest()
    ranks = json.loads(document)["server_list"][0]["device"]
    ready = [event["sha256"] for event in job.all("rank_table.ready")]
    seen = [job.said(rank) for rank in range(len(ranks))]
    return ready == [digest] and seen == [[f"{digest}  -"]] * len(ranks)


def test_a_table_swapped_a_thousand_times_is_taken_when_it_is_completed(bad_day, place):
    mounted = ConfigMap(place / "config")
    mounted.swap(NOT_READY[0])
    job = bad_day("--rank-table", str(mounted.directory), *SHOW)
    job.wait_for("rank_table.waiting")
    began = time.monotonic()
    usual = swapped(job, mounted, 500)
    later = swapped(job, mounted, 500)
    took = time.monotonic() - began
    mounted.swap(GOOD)
    assert job.end() == 0
    assert ran_with(job, GOOD)
    assert later.cpu <= 2 * usual.cpu + 0.5
    assert later.open_files <= usual.open_files + 2  # a look or a watch may be under way
    assert later.threads <= usual.threads + 2
    told = [event["reason"] for event in job.all("rank_table.waiting")]
    assert len(told) <= took + 3  # once a second
    assert sum(one == other for one, other in pairwise(told)) <= took / 10  # the same: every 10 s
    assert len(job.all("rank_table.unwatched")) <= 1
    assert not job.all("diagnostic")


class Use:
    """What a job has taken: CPU seconds since ``earlier``, open files and threads now."""

    def __init__(self, job: Running, earlier: float) -> None:
        self.cpu = cpu_seconds(job.pid) - earlier
        self.open_files = len(job.open_files)
        self.threads = job.threads


def swapped(job: Running, mounted: ConfigMap, times: int) -> Use:
    """Swap so often, slowly enough that the job sees many of the states; gives what it took."""
    earlier = cpu_seconds(job.pid)
    for number in range(times):
        mounted.swap(NOT_READY[number % len(NOT_READY)])
        time.sleep(0.001)
    return Use(job, earlier)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# A foreign table is refused the moment it is seen, whatever came before: a matter of the parser.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_foreign_table_among_the_swaps_starts_no_rank(bad_day, place):
    mounted = ConfigMap(place / "config")
    mounted.swap(NOT_READY[0])
    job = bad_day("--rank-table", str(mounted.directory), *SHOW)
    job.wait_for("rank_table.waiting")
    for content in (*NOT_READY, FOREIGN):
        mounted.swap(content)
    assert job.end() == 65
    assert "left over from an earlier run" in job.events[-1]["reason"]
    assert not job.all("generation.started")


# Root may read whatever has mode 000.
@pytest.mark.parametrize("way", ["unprivileged"], indirect=True)
def test_a_table_that_cannot_be_read_is_waited_for_until_it_can(bad_day, place):
    reasons = {
        "loop": "it cannot be read: Too many levels of symbolic links",
        "locked": "it cannot be read: Permission denied",
        "below": "it cannot be read: Permission denied",
        "missing": "there is no such file",
        "removed": "status is 'initializing'",
    }
    path = {kind: place / kind / NAME for kind in reasons}
    for file in path.values():
        file.parent.mkdir()
    path["loop"].symlink_to(path["loop"])
    for kind in ("locked", "below"):
        path[kind].write_bytes(GOOD)
    path["removed"].write_bytes(NOT_READY[0])
    path["locked"].chmod(0)
    path["below"].parent.chmod(0)
    waiting = {
        kind: bad_day("--rank-table", str(path[kind]), *SHOW, home=f"waiting {kind}")
        for kind in path
    }
    # Its end also tells that the others have looked again and again, and seen no change.
    timed = {
        kind: bad_day(
            *("--rank-table", str(path[kind]), "--rank-table-timeout", "2.2", *SHOW),
            home=f"timed {kind}",
        )
        for kind in path
    }
    for kind, job in timed.items():
        assert job.end() == 75
        assert f"found: {reasons[kind]}" in job.events[-1]["reason"]
        assert waiting[kind].wait_for("rank_table.waiting")["reason"].startswith(reasons[kind])
    path["loop"].unlink()
    shutil.rmtree(path["removed"].parent)
    path["removed"].parent.mkdir()
    for kind in ("loop", "missing", "removed"):
        path[kind].write_bytes(GOOD)
    path["locked"].chmod(0o644)
    path["below"].parent.chmod(0o755)
    for job in waiting.values():
        assert job.end() == 0
        assert ran_with(job, GOOD)
    for job in (*timed.values(), *waiting.values()):
        assert not job.all("supervisor.defect")


def test_a_table_whose_name_is_too_long_is_no_defect(supervised, tmp_path):
    for name in ("x" * 300, "x/" * 3000):
        job = supervised("--rank-table", name, "--check", *SHOW)
        assert job.end() == 75
        assert "File name too long" in job.events[-1]["reason"]


LIMITED = 'for limit in $1; do echo 0 > "/proc/sys/user/$limit"; done; shift; exec "$@"'


def limited(*limits: str) -> tuple[str, ...]:
    """Words that set these limits to 0, in a user namespace: for nobody but what they start."""
    before = ("unshare", "--user", "--map-root-user", "sh", "-ec", LIMITED, "sh", " ".join(limits))
    tried = subprocess.run((*before, "true"), check=False, capture_output=True, timeout=30)
    if tried.returncode:
        pytest.skip(f"no user namespace with limits of its own: {tried.stderr.decode().strip()}")
    return before


# In that namespace there is nobody else, so that it cannot be entered in another way on top of it.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_without_inotify_the_table_is_found_and_that_is_told_once(bad_day, place):
    jobs = {}
    for limit in ("max_inotify_instances", "max_inotify_watches"):
        path = place / limit / NAME
        path.parent.mkdir()
        path.write_bytes(NOT_READY[0])
        words = ("--rank-table", str(path), *SHOW)
        jobs[path] = bad_day(*words, before=limited(limit), home=f"home of {limit}")
    for path, job in jobs.items():
        assert job.wait_for("rank_table.unwatched")["reason"]
        path.write_bytes(GOOD)
    for job in jobs.values():
        assert job.end() == 0
        assert ran_with(job, GOOD)
        assert len(job.all("rank_table.unwatched")) == 1


class Mount:
    """A FUSE mount that shows ``source``; frozen, it answers nobody."""

    def __init__(self, place: Path, options: str) -> None:
        self.source, self.target = place / "source", place / "mount"
        for directory in (place, self.source, self.target):
            directory.mkdir()
        self.options = options
        self.start()

    def start(self) -> None:
        bindfs = program("bindfs", "bindfs")
        places = [str(self.source), str(self.target)]
        words = [bindfs, "-f", "-o", f"allow_other,{self.options}", *places]
        self._server = subprocess.Popen(words, stderr=subprocess.PIPE)
        wait_until(lambda: os.path.ismount(self.target) or self._server.poll() is not None)
        if self._server.poll() is not None:
            assert self._server.stderr is not None
            pytest.skip(f"bindfs cannot mount here: {self._server.stderr.read().decode().strip()}")

    def freeze(self) -> None:
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._server.send_signal(signal.SIGCONT)

    def die(self) -> None:
        self._server.kill()
        self._server.wait()
        if self._server.stderr is not None:
            self._server.stderr.close()

    def gone(self) -> None:
        """Whoever waits in it gets an error now."""
        subprocess.run(["umount", "--lazy", self.target], check=False, capture_output=True)
        self.die()


@contextmanager
def mounts(place: Path, *names: str) -> Iterator[dict[str, Mount]]:
    if os.geteuid() or not Path("/dev/fuse").exists():
        pytest.skip("a FUSE mount needs root and /dev/fuse")
    made: dict[str, Mount] = {}
    try:
        for name in names:
            # "cached": what the kernel has seen of a file it tells without asking the mount.
            options = f"attr_timeout={60 if name == 'cached' else 0}"
            made[name] = Mount(place / name, options)
        yield made
    finally:
        for mount in made.values():
            mount.gone()


# The kernel makes everybody wait for such a mount, whoever it is; and a silence takes 10 s to be
# told, so that all of it is one case.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_hung_mount_under_the_table_is_told_and_stops_nothing(bad_day, place):
    def waiting_on(mount: Mount, *timeouts: int) -> list[Running]:
        path = str(mount.target / NAME)
        words = [("--rank-table", path, "--rank-table-timeout", str(time)) for time in timeouts]
        homes = (f"home {number}" for number in numbers)
        return [
            bad_day(*options, *SHOW, home=home) for options, home in zip(words, homes, strict=False)
        ]

    numbers = count()
    with mounts(place, "before", "while", "cached") as at:
        for name, mount in at.items():
            (mount.source / NAME).write_bytes(GOOD if name == "before" else NOT_READY[0])
        at["before"].freeze()
        before = waiting_on(at["before"], 3, 300, 300)
        listening = waiting_on(at["while"], 15, 300, 300)
        reading = waiting_on(at["cached"], 300)
        wait([*listening, *reading], "rank_table.waiting")
        wait_until(lambda: all(listens(job) for job in (*listening, *reading)))
        at["while"].freeze()
        reading[0].send(signal.SIGSTOP)
        change_and_freeze(at["cached"])
        reading[0].send(signal.SIGCONT)

        wait(before, "supervisor.started")
        before[1].send(signal.SIGTERM)  # while it looks for the first time
        wait(before[1:2], "supervisor.exited", exit_code=143)
        hung = [before[2], *listening[1:], *reading]
        wait(hung, "rank_table.waiting", reason=SILENT)
        listening[1].send(signal.SIGTERM)
        listening[1].wait_for("supervisor.exited", exit_code=143)
        wait([before[0], listening[0]], "supervisor.exited", exit_code=75)
        assert f"found: {SILENT}" in before[0].events[-1]["reason"]
        (at["while"].source / NAME).write_bytes(GOOD)
        for mount in at.values():
            mount.thaw()  # before, a thread whose question the mount had read cannot die
        for jobs in (before, listening):
            assert [job.end() for job in jobs] == [75, 143, 0]
        assert [job.end() for job in reading] == [0]
        assert all(ran_with(job, GOOD) for job in (before[2], listening[2], *reading))


def wait(jobs: list[Running], event: str, **keys: object) -> None:
    for job in jobs:
        job.wait_for(event, **keys)


def listens(job: Running) -> bool:
    """Whether it has been told that it will hear of changes, and not only asked for it."""
    for file in Path(f"/proc/{job.pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):
            if "inotify wd:" in file.read_text():
                return True
    return False


def change_and_freeze(mount: Mount) -> None:
    """Complete the table; the kernel knows that it has changed, but nobody can open it."""
    path = mount.target / NAME
    path.write_bytes(GOOD)
    path.stat()
    mount.freeze()


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_mount_that_dies_under_the_table_is_waited_for_until_it_is_back(bad_day, place):
    with mounts(place, "mount") as at:
        mount = at["mount"]
        (mount.source / NAME).write_bytes(NOT_READY[0])
        job = bad_day("--rank-table", str(mount.target / NAME), *SHOW)
        job.wait_for("rank_table.waiting")
        mount.die()
        reason = "it cannot be read: Transport endpoint is not connected"
        job.wait_for("rank_table.waiting", reason=reason)
        mount.gone()
        (mount.source / NAME).write_bytes(GOOD)
        mount.start()
        assert job.end() == 0
        assert ran_with(job, GOOD)
