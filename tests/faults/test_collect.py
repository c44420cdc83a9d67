"""An archive for a ticket on a bad day: full and frozen disks, another user, files that change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collection.reading import manifest_of, members, why_not
from tests.ctl.calling import ENVIRON, PROGRAM, ctl, own_state, process, rank_of
from tests.faults.facilities import hanging, small_disk
from tests.faults.ways import NOBODY, unprivileged
from tests.running import DEADLINE_SECONDS, python, wait_until

NOISE = 4 << 20


def ended(place: Path, content: bytes) -> Path:
    """The state file of a job that has ended, and the log of its rank."""
    log = place / "rank-0.txt"
    log.write_bytes(content)
    return own_state(place / "state.json", phase="ended", exit_code=1, ranks=[rank_of(log)])


def to_stdout(state: Path, *before: str) -> dict[str, bytes]:
    found = subprocess.run(
        [*before, *PROGRAM, "collect", "-o", "-", "--state-file", str(state)],
        env=ENVIRON,
        capture_output=True,
        timeout=2 * DEADLINE_SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return members(found.stdout)


def timed(state: Path) -> tuple[float, dict[str, bytes]]:
    began = time.monotonic()
    files = to_stdout(state)
    return time.monotonic() - began, files


def test_where_the_disk_is_full_nothing_is_left_and_stdout_takes_it(tmp_path):
    with small_disk(tmp_path / "disk", os.geteuid()) as disk:
        state = ended(disk, os.urandom(NOISE))
        (disk / "filler").write_bytes(bytes(11 << 20))
        out = disk / "x.tar.gz"
        found = process("collect", "-o", str(out), "--state-file", str(state))
        assert found.returncode == 73
        assert found.stderr == (
            f"ascend-supervisorctl: {out} cannot be written: No space left on device; give another "
            "place with -o, or write to stdout with -o -\n"
        )
        assert sorted(one.name for one in disk.iterdir()) == ["filler", "rank-0.txt", "state.json"]
        files = to_stdout(state)
        assert files["logs/rank-0.txt"] == (disk / "rank-0.txt").read_bytes()


def test_a_disk_that_does_not_answer_costs_its_time_once(tmp_path):
    with hanging(tmp_path, os.geteuid(), "frozen") as (frozen,):
        logs = [frozen.target / f"rank-{rank}.txt" for rank in range(4)]
        for log in logs:
            log.write_bytes(b"frozen\n")
        good = tmp_path / "good.txt"
        good.write_bytes(b"good\n")
        ranks = [rank_of(log, rank) for rank, log in enumerate((*logs, good))]
        state = own_state(tmp_path / "state.json", phase="ended", ranks=ranks)
        usual, _ = timed(state)
        frozen.freeze()
        took, files = timed(state)
        frozen.thaw()
    assert took - usual < 25  # 10 s is once, 40 s would be each time
    assert files["logs/good.txt"] == b"good\n"
    assert "has not answered within 10 s" in why_not(manifest_of(files), str(logs[3]))


def test_a_file_system_whose_files_all_have_names_gets_it_too(tmp_path):
    """FUSE, NFS: the other ones keep nothing of an archive that is not whole."""
    state = ended(tmp_path, b"the error\n")
    with hanging(tmp_path, os.geteuid(), "there") as (there,):
        out = there.target / "x.tar.gz"
        found = process("collect", "-o", str(out), "--state-file", str(state))
        assert found.returncode == 0, found.stderr
        assert out.stat().st_mode & 0o777 == 0o600
        assert [one.name for one in there.source.iterdir()] == ["x.tar.gz"]
        assert members(out.read_bytes())["logs/rank-0.txt"] == b"the error\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
def test_another_user_gets_what_it_may_read_and_is_told_what_not(tmp_path):
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o011)
    shown = tmp_path / "shown"
    shown.mkdir()
    state = ended(tmp_path, b"for the owner\n")
    state.chmod(0o644)
    (tmp_path / "rank-0.txt").chmod(0o600)
    way = unprivileged(shown)
    if way.missing is not None:
        pytest.skip(way.missing)
    files = to_stdout(state, *way.before)
    manifest = manifest_of(files)
    assert manifest["user"] == NOBODY
    assert "supervisor/state.json" in files
    assert why_not(manifest, str(tmp_path / "rank-0.txt")) == "Permission denied for user 65534"


@pytest.mark.parametrize("way", ["unprivileged"], indirect=True)
def test_root_takes_the_job_of_another_user_and_starts_nothing_that_it_names(bad_day, tmp_path):
    source = "import time; print('up', flush=True); time.sleep(600)"
    job = bad_day(
        "--standalone",
        "1",
        *("bash", "-c", 'exec -a python3 "$0" "$@"', *python(source)),
        environ={"PATH": f"{planted(tmp_path)}:{os.environ['PATH']}", "WORD": "of the job"},
    )
    job.wait_for("output", rank=0)
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    wait_until(lambda: job.log(0).read_bytes().endswith(b"up\n"))
    out = tmp_path / "x.tar.gz"
    found = ctl("collect", "-o", str(out), "--state-file", str(state), environ=ENVIRON)
    assert found.returncode == 0, found.stderr
    files = members(out.read_bytes())
    manifest = manifest_of(files)
    assert files[f"logs/{job.log(0).name}"].endswith(b"up\n")
    assert b"WORD=of the job\n" in files["machine/rank_0.env"]
    assert len([name for name in files if name.startswith("stacks/")]) == 2
    assert "does not run as the user who collects" in why_not(manifest, "the plan (--check)")
    assert not (tmp_path / "started").exists()
    job.send(signal.SIGTERM)
    job.end()


def planted(place: Path) -> Path:
    """A directory for PATH with a python3 of its own, which tells that it was started."""
    program = place / "planted" / "python3"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {place / 'started'}\n")
    program.chmod(0o755)
    return program.parent


def test_logs_that_grow_and_are_rotated_meanwhile_make_no_torn_archive(tmp_path):
    log = tmp_path / "rank-0.txt"
    state = ended(tmp_path, b"begin\n")
    writer = (
        "import os, sys\n"
        "path, number = sys.argv[1], 0\n"
        "while True:\n"
        "    with open(path, 'ab') as file:\n"
        "        file.write(os.urandom(1 << 20))\n"
        "    number = number % 3 + 1\n"
        "    os.rename(path, f'{path}.{number}')\n"
        "    open(path, 'wb').close()\n"
    )
    with subprocess.Popen([sys.executable, "-c", writer, str(log)]) as writing:
        try:
            for _ in range(3):
                manifest_of(to_stdout(state))
        finally:
            writing.kill()
