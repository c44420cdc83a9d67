"""How the start before this one ended: from a state file that may be torn, planted or foreign."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path, PurePath
from typing import Any

import pytest
from msgspec.structs import replace

from ascend_supervisor.job_files import Place, place_of
from ascend_supervisor.processes.proc import start_time
from ascend_supervisor.program.earlier_start import (
    CAUSE_CHARACTERS,
    SENTENCE_CHARACTERS,
    EarlierStart,
    earlier_start,
)
from ascend_supervisor.progress.account import KeptAccount
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.reporters.status_document import Status, as_json

CAUSE = "rank 1 failed first, in generation 0: it exited with status 7 after 0.1 s\n  the last line"
ENDED = Status(
    "job-7",
    "pod-0",
    4711,
    1,
    "0.1.0",
    phase="ended",
    why="no restarts were asked for (--restarts); ending with exit code 7",
    exit_code=7,
    root_cause=CAUSE,
)


def place(folder: Path, **variables: str) -> Place:
    environ = {"JOB_ID": "job-7", "POD_NAME": "pod-0", **variables}
    return place_of(
        environ, "host", mounted_log_exists=False, here=PurePath(folder), log_dir=folder
    )


def found(folder: Path, **changes: Any) -> EarlierStart:
    here = place(folder)
    Path(here.state_file).write_bytes(as_json(replace(ENDED, **changes)))
    return earlier_start(here)


def test_a_failure_is_told_with_its_root_cause(tmp_path):
    assert found(tmp_path) == EarlierStart(
        "the previous start here ended with exit code 7: rank 1 failed first, in generation 0: "
        "it exited with status 7 after 0.1 s",
        CAUSE,
    )


def test_which_of_its_generations_made_no_progress_is_known(tmp_path):
    assert found(tmp_path, no_progress=(12, 0)).no_progress == (12, 0)
    assert found(tmp_path, no_progress=(12, -1)) == EarlierStart()  # it is forged


def test_the_start_is_named_where_the_platform_counts(tmp_path):
    told = found(tmp_path, schedule_count=1, start_count=2)
    assert told.sentence is not None
    assert told.sentence.startswith("the previous start here (s1-p2) ended with exit code 7: ")


def test_an_end_without_a_failure_says_why(tmp_path):
    told = found(tmp_path, exit_code=143, root_cause=None, why="told to stop by SIGTERM")
    assert told == EarlierStart(
        "the previous start here ended with exit code 143: told to stop by SIGTERM"
    )


def test_a_supervisor_that_was_killed_is_told_by_its_phase(tmp_path):
    told = found(tmp_path, phase="running", exit_code=None, root_cause=None)
    assert told == EarlierStart(
        "the previous start here did not report its end; its phase was 'running'"
    )


def test_one_that_was_killed_while_it_lingered_has_left_its_cause(tmp_path):
    told = found(tmp_path, phase="stopping", exit_code=None)
    assert told.sentence is not None
    assert told.sentence.endswith("its phase was 'stopping': " + CAUSE.partition("\n")[0])
    assert told.root_cause == CAUSE


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 0, "root_cause": None},
        {"job_id": "job-8"},
        {"pod": "pod-1"},
        {"phase": "running", "pid": os.getpid(), "start_time": start_time(os.getpid())},
    ],
    ids=["success", "another job", "another pod", "it lives"],
)
def test_nothing_is_told_of(tmp_path, changes):
    assert found(tmp_path, **changes) == EarlierStart()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        as_json(ENDED)[:-20],
        b"[]",
        b"{}",
        b"\xff\x00",
        as_json(ENDED).replace(b'"pid": 4711', b'"pid": -1'),
    ],
    ids=["empty", "torn", "a list", "no keys", "no text", "no pid"],
)
def test_what_is_no_state_file_says_nothing(tmp_path, content):
    here = place(tmp_path)
    assert earlier_start(here) == EarlierStart()
    Path(here.state_file).write_bytes(content)
    assert earlier_start(here) == EarlierStart()


def test_a_job_without_a_name_is_no_other_start_of_itself(tmp_path):
    here = place(tmp_path, JOB_ID="")
    Path(here.state_file).write_bytes(as_json(replace(ENDED, job_id="job")))
    assert earlier_start(here) == EarlierStart()


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory"])
def test_only_a_file_is_read(tmp_path, kind):
    path = Path(place(tmp_path).state_file)
    if kind == "symlink":
        (tmp_path / "other").write_bytes(as_json(ENDED))
        path.symlink_to(tmp_path / "other")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert earlier_start(place(tmp_path)) == EarlierStart()


def test_what_another_user_has_planted_says_nothing(tmp_path):
    if os.geteuid():
        pytest.skip("to give a file to somebody else needs root")
    assert found(tmp_path) != EarlierStart()
    os.chown(place(tmp_path).state_file, 1234, -1)
    assert earlier_start(place(tmp_path)) == EarlierStart()


def test_words_are_cut_and_steer_no_terminal(tmp_path):
    told = found(tmp_path, root_cause="\x1b[2J" + "x" * 100_000 + "\nsecond")
    assert told.sentence is not None
    assert told.root_cause is not None
    assert "\x1b" not in told.sentence + told.root_cause
    assert len(told.root_cause) == CAUSE_CHARACTERS
    assert len(told.sentence) == SENTENCE_CHARACTERS


def trained() -> TrainingRecord:
    """Of a generation that has ended."""
    record = TrainingRecord(60.0, 0.0)
    record.begin(0, 10.0)
    record.take([Reading(12.0, "megatron", step=1)], 0)
    record.take([Reading(20.0, "megatron", step=5)], 0)
    record.stop(21.0, hung=False)
    record.end(22.0)
    return record


def account_after(folder: Path, age: float, **changes: Any) -> KeptAccount:
    """What a start goes on with that comes ``age`` seconds after the file was written."""
    here = place(folder)
    known = trained().status(25.0, datetime(2026, 11, 25, tzinfo=timezone.utc))
    Path(here.state_file).write_bytes(as_json(replace(ENDED, progress=known, **changes)))
    written = time.time() - age
    os.utime(here.state_file, (written, written))
    account = earlier_start(here).account
    assert account is not None
    return account


def test_the_account_of_the_time_goes_on(tmp_path):
    before = account_after(tmp_path, 5.0)
    assert before.account["restarting"] == pytest.approx(3.0 + 5.0, abs=2.0)
    later = TrainingRecord(60.0, 100.0, before).account(110.0)
    assert later.account["training"] == 9.0
    assert sum(later.account.values()) == pytest.approx(25.0 + 5.0 + 10.0, abs=2.0)
    assert later.best_step == 5


def test_what_a_supervisor_did_after_its_last_word_is_unknown_if_it_was_killed(tmp_path):
    account = account_after(tmp_path, 50.0, phase="running", exit_code=None).account
    assert account["unknown"] == pytest.approx(50.0, abs=2.0)
    assert account["restarting"] == 3.0


@pytest.mark.parametrize("age", [-86400.0, 8 * 3600.0], ids=["set back", "set forward"])
@pytest.mark.parametrize("phase", ["ended", "running"])
def test_a_clock_that_was_set_between_two_starts_adds_nothing(tmp_path, age, phase):
    before = account_after(tmp_path, age, phase=phase)
    assert before == trained().account(25.0)
