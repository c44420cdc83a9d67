"""``collect``: from a state file, or without one, to one archive or one sentence."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ascend_supervisor.control.status_answer import LiveStatus, PeersStatus, ServerRow
from ascend_supervisor.ctl.state import read_state_file
from ascend_supervisor.files.to_json import to_json
from tests.collection.reading import manifest_of, members, why_not
from tests.ctl.calling import ENVIRON, PROGRAM, ctl, own_state, process, rank_of, refused
from tests.rank_tables import TEMPLATE_1, data, table
from tests.running import DEADLINE_SECONDS, wait_until


def ended(tmp_path: Path, **changes: object) -> Path:
    """The state file of a job that has failed, and its rank's log."""
    log = tmp_path / "job-proc-rank-0-device-0.txt"
    log.write_bytes(b"the error\n")
    known = {"phase": "ended", "exit_code": 1, "ranks": [rank_of(log)]}
    return own_state(tmp_path / "state.json", **known | changes)


def test_the_archive_is_for_its_owner_and_one_sentence_says_where_it_is(tmp_path):
    state, out = ended(tmp_path), tmp_path / "x.tar.gz"
    found = ctl("collect", "-o", str(out), "--state-file", str(state))
    assert (found.returncode, found.stderr) == (0, "")
    assert out.stat().st_mode & 0o777 == 0o600
    files = members(out.read_bytes())
    manifest = manifest_of(files)
    assert files["supervisor/state.json"] == state.read_bytes()
    assert files["logs/job-proc-rank-0-device-0.txt"] == b"the error\n"
    assert (manifest["job_id"], manifest["pod"], manifest["servers"]) == ("job", "pod-0", [])
    number, left = len(manifest["taken"]), len(manifest["left_out"])
    assert found.stdout == (
        f"{out}, {out.stat().st_size} bytes: {number} files, {manifest['bytes']} bytes before "
        f"compression; left out {left} (MANIFEST.json in it says why); logs are not masked\n"
    )
    assert "does not run any more" in why_not(manifest, "live figures, stacks of now")


def test_the_logs_that_msrun_writes_of_its_workers_are_in_it(tmp_path):
    state = ended(tmp_path)
    for name in ("job/msrun/node_0/generation_0/worker_1.log", "other/msrun/node_0/worker_1.log"):
        log = tmp_path / name
        log.parent.mkdir(parents=True)
        log.write_text(f"the traceback of {name}\n")
    out = tmp_path / "x.tar.gz"
    assert ctl("collect", "-o", str(out), "--state-file", str(state)).returncode == 0
    tracebacks = [one for one in members(out.read_bytes()).values() if b"the traceback of" in one]
    assert tracebacks == [b"the traceback of job/msrun/node_0/generation_0/worker_1.log\n"]


def test_where_the_size_is_short_the_log_of_the_worker_that_failed_comes_first(tmp_path):
    workers = tmp_path / "job/msrun/node_0/generation_0"
    workers.mkdir(parents=True)
    for number in range(4):
        log = workers / f"worker_{number}.log"
        log.write_bytes(b"x" * 1_000_000 + b"the end\n")
        os.utime(log, (10**9 + number, 10**9 + number))
    cause = f"rank 1 failed first\nthe last lines of {workers}/worker_1.log:\n  loss is nan"
    state, out = ended(tmp_path, root_cause=cause), tmp_path / "x.tar.gz"
    words = ("collect", "--size", "1MiB", "-o", str(out), "--state-file", str(state))
    assert ctl(*words).returncode == 0
    sizes = {name: len(one) for name, one in members(out.read_bytes()).items() if "worker" in name}
    assert next(iter(sizes)) == "logs/worker_1.log"
    assert sizes.pop("logs/worker_1.log") > 2 * max(sizes.values())


def test_an_archive_has_a_name_of_its_own_and_what_was_there_is_replaced(tmp_path):
    state, here = ended(tmp_path), tmp_path / "here"
    here.mkdir()
    found = process("collect", "--state-file", str(state), cwd=here)
    assert found.returncode == 0, found.stderr
    (made,) = here.iterdir()
    assert re.fullmatch(r"ascend-supervisor-job-pod-0-[0-9]{8}T[0-9]{6}Z\.tar\.gz", made.name)
    assert ctl("collect", "-o", str(made), "--state-file", str(state)).returncode == 0
    assert "MANIFEST.json" in members(made.read_bytes())
    assert list(here.iterdir()) == [made]


def test_to_stdout_goes_the_archive_and_nothing_else(tmp_path):
    words = [*PROGRAM, "collect", "-o", "-", "--state-file", str(ended(tmp_path))]
    found = subprocess.run(
        words, env=ENVIRON, capture_output=True, timeout=DEADLINE_SECONDS, check=True, cwd=tmp_path
    )
    assert manifest_of(members(found.stdout))["job_id"] == "job"
    assert found.stderr.startswith(b"ascend-supervisorctl: stdout: ")


def test_where_the_current_directory_was_removed_it_works(tmp_path):
    state, out = ended(tmp_path), tmp_path / "x.tar.gz"
    gone = tmp_path / "gone"
    gone.mkdir()
    words = ("collect", "-o", str(out), "--state-file", str(state))
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    found = process(*words, before=("sh", "-c", script, str(gone)))
    assert found.returncode == 0, found.stderr
    assert "MANIFEST.json" in members(out.read_bytes())


def test_a_terminal_is_no_place_for_an_archive(tmp_path):
    upper, terminal = pty.openpty()
    words = ("collect", "-o", "-", "--state-file", str(ended(tmp_path)))
    found = process(*words, stdout=terminal)
    os.close(terminal)
    os.close(upper)
    assert found.returncode == 64
    assert "is a terminal here; write ascend-supervisorctl collect -o - >" in found.stderr


def test_a_reader_that_goes_away_ends_it_silently(tmp_path):
    log = tmp_path / "rank-0.txt"
    log.write_bytes(os.urandom(8 << 20))
    state = own_state(tmp_path / "state.json", phase="ended", ranks=[rank_of(log)])
    words = [*PROGRAM, "collect", "-o", "-", "--state-file", str(state)]
    with subprocess.Popen(
        words, env=ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(DEADLINE_SECONDS) == -13


def test_without_any_supervisor_the_machine_is_there(tmp_path):
    environ = {"MA_MOUNT_PATH": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tmp_path / "log").mkdir()
    plog = tmp_path / "ascend" / "log" / "debug" / "plog" / "plog-7_1.log"
    plog.parent.mkdir(parents=True)
    plog.write_bytes(b"of CANN\n")
    out = tmp_path / "x.tar.gz"
    found = ctl("collect", "-o", str(out), environ=environ)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 1
    files = members(out.read_bytes())
    manifest = manifest_of(files)
    assert manifest["servers"] == []
    assert "there is no state file" in why_not(manifest, "the job")
    assert files["process_log/debug/plog/plog-7_1.log"] == b"of CANN\n"
    assert {"machine/kernel.txt", "machine/cgroup.txt", "machine/processes.txt"} <= files.keys()
    assert sys.version.encode() in files["versions/ascend-supervisorctl.txt"]


def test_a_state_file_that_was_named_must_be_there(tmp_path):
    out = tmp_path / "x.tar.gz"
    words = ("collect", "-o", str(out), "--state-file", str(tmp_path / "absent"))
    assert "there is no state file" in refused(1, *words)
    assert not out.exists()


def test_a_state_file_that_is_torn_goes_along(tmp_path):
    state, out = tmp_path / "state.json", tmp_path / "x.tar.gz"
    state.write_bytes(b'{"job_id": "jo')
    assert ctl("collect", "-o", str(out), "--state-file", str(state)).returncode == 0
    files = members(out.read_bytes())
    assert files["supervisor/state.json"] == b'{"job_id": "jo'
    assert "is no state file" in why_not(manifest_of(files), "the job")


def test_the_size_is_for_what_is_taken(tmp_path):
    log = tmp_path / "rank-0.txt"
    log.write_bytes(b"x" * (20 << 20) + b"the error\n")
    state = own_state(tmp_path / "state.json", phase="ended", ranks=[rank_of(log)])
    out = tmp_path / "x.tar.gz"
    words = ("collect", "-o", str(out), "--state-file", str(state))
    assert ctl(*words, "--size", "4MiB").returncode == 0
    files = members(out.read_bytes())
    manifest = manifest_of(files)
    assert 3 << 20 < manifest["bytes"] <= 4 << 20 == manifest["size_limit"]
    assert files["logs/rank-0.txt"].endswith(b"xxxthe error\n")
    (cut,) = (one for one in manifest["taken"] if one["name"] == "logs/rank-0.txt")
    assert cut["bytes"] + cut["bytes_before"] == log.stat().st_size
    assert "at least 1048576 bytes" in refused(64, *words, "--size", "1K")


@pytest.mark.parametrize("kind", ["directory", "fifo", "missing", "stdout"])
def test_what_is_no_place_for_a_file_is_refused_with_73(tmp_path, kind):
    state, out = ended(tmp_path), tmp_path / "out"
    if kind == "directory":
        out.mkdir()
    elif kind == "fifo":
        os.mkfifo(out)
    else:
        out = Path("/dev/stdout") if kind == "stdout" else out / "absent"
    sentence = refused(73, "collect", "-o", str(out), "--state-file", str(state))
    assert sentence.endswith("give another place with -o, or write to stdout with -o -\n")
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


def test_other_servers_are_those_of_the_rank_table(tmp_path):
    here, other = (one.label for one in table(TEMPLATE_1).entries)
    place = tmp_path / "hccl.json"
    place.write_bytes(data(TEMPLATE_1))
    state = ended(tmp_path)
    event = {"event": "rank_table.ready", "path": str(place), "this_server": here}
    origin = {"job_id": "job", "host": "pod-0", "pid": json.loads(state.read_bytes())["pid"]}
    (tmp_path / "state.events.jsonl").write_text(json.dumps(event | origin) + "\n")
    out = tmp_path / "x.tar.gz"
    found = ctl("collect", "-o", str(out), "--state-file", str(state))
    assert found.stdout.splitlines()[1] == (
        f"other servers: {other}; run there: ascend-supervisorctl collect"
    )
    files = members(out.read_bytes())
    assert files["supervisor/hccl.json"] == data(TEMPLATE_1)
    assert manifest_of(files)["servers"] == [
        {"name": other, "command": "ascend-supervisorctl collect"}
    ]


def test_other_servers_are_those_that_see_each_other(tmp_path, answering):
    rows = tuple(ServerRow(number, f"pod-{number}", "running", "", 1.0) for number in range(3))
    status = read_state_file(own_state(tmp_path / "state")).status
    live = LiveStatus(status, "", 0.0, (), (), 1, PeersStatus("job", 1, 0.5, rows))
    supervisor = answering(**json.loads(to_json(live)))
    out = tmp_path / "x.tar.gz"
    words = ("collect", "-o", str(out), "--state-file", str(supervisor.path))
    assert ctl(*words).stdout.splitlines()[1] == (
        "other servers: pod-0, pod-2; run there: ascend-supervisorctl collect"
    )
    assert json.loads(members(out.read_bytes())["supervisor/live.json"])["peers"]["server"] == 1


def test_a_state_file_that_names_what_is_not_the_jobs_gets_none_of_it(tmp_path):
    """It may be forged, and whoever collects may be root."""
    passwd = tmp_path / "link"
    passwd.symlink_to("/etc/passwd")
    forged = [rank_of(Path("/etc/shadow")), rank_of(passwd, 1), rank_of(Path("/dev/zero"), 2)]
    state = own_state(tmp_path / "state.json", phase="ended", ranks=forged, pod="../../x")
    events = {"event": "rank_table.ready", "path": "/etc/passwd", "this_server": "a"}
    log = tmp_path / "state.events.jsonl"
    origin = {"job_id": "job", "host": "../../x", "pid": os.getpid()}
    log.write_text(json.dumps(events | origin) + "\n")
    if os.geteuid() == 0:
        os.chown(state, 4711, -1)
        os.chown(log, 4711, -1)
    out = tmp_path / "x.tar.gz"
    assert ctl("collect", "-o", str(out), "--state-file", str(state)).returncode == 0
    files = members(out.read_bytes())
    assert not [name for name in files if name.startswith("logs/")]
    assert b"root:" not in b"".join(files[name] for name in files if name.startswith("sup"))
    assert why_not(manifest_of(files), "/etc/passwd") == "it is no rank table"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_a_state_file_that_names_a_process_of_another_user_shows_nothing_of_it(tmp_path):
    """Nor is anything started that such a process names."""
    log = tmp_path / "rank-0.txt"
    log.write_bytes(b"a log\n")
    state = own_state(tmp_path / "state.json", ranks=[rank_of(log)])  # it names this process
    for path in (state, log):
        os.chown(path, 4711, -1)
    out = tmp_path / "x.tar.gz"
    found = ctl("collect", "-o", str(out), "--state-file", str(state), environ=ENVIRON)
    assert found.returncode == 0
    files = members(out.read_bytes())
    assert files["logs/rank-0.txt"] == b"a log\n"
    assert [name for name in files if name.endswith(".env")] == ["machine/ascend-supervisorctl.env"]
    manifest = manifest_of(files)
    assert "does not run as the user" in why_not(manifest, "the plan (--check)")


def test_a_name_that_no_file_can_have_is_told(tmp_path):
    named = [rank_of(Path("/a\0b")), rank_of(Path("x" * 300), 1)]
    state = own_state(tmp_path / "state.json", phase="ended", ranks=named, job_id="a\0/../b")
    out = tmp_path / "x.tar.gz"
    assert ctl("collect", "-o", str(out), "--state-file", str(state)).returncode == 0
    manifest = manifest_of(members(out.read_bytes()))
    assert why_not(manifest, "/a\\x00b") == "no file can have this name"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_one_that_is_interrupted_or_killed_leaves_nothing(tmp_path, number):
    log, here = tmp_path / "rank-0.txt", tmp_path / "here"
    here.mkdir()
    with log.open("wb") as file:
        file.truncate(8 << 30)
    state = own_state(tmp_path / "state.json", phase="ended", ranks=[rank_of(log)])
    words = [*PROGRAM, "collect", "--state-file", str(state)]
    with subprocess.Popen(words, env=ENVIRON, cwd=here) as collecting:
        wait_until(lambda: largest_file_below(here, collecting.pid) > 100_000)
        collecting.send_signal(number)
        assert collecting.wait(DEADLINE_SECONDS) == -number
    assert list(here.iterdir()) == []


def largest_file_below(directory: Path, pid: int) -> int:
    """Of the files there that the process has open, which need no name."""
    sizes = [0]
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if str(link.readlink()).startswith(f"{directory}/"):
                sizes.append(link.stat().st_size)
    return max(sizes)


def test_a_probe_imports_nothing_of_it(tmp_path):
    source = (
        "import sys\n"
        "from ascend_supervisor.ctl.main import run\n"
        f"run(['health', '--state-file', {str(tmp_path / 'absent')!r}], {{}})\n"
        "assert not [name for name in sys.modules if 'collect' in name and 'supervisor' in name]\n"
        "assert 'tarfile' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", source], env=ENVIRON, check=True, capture_output=True)
