"""The failure, told once: what the sentence holds, and that it always fits."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import diagnosis_by
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    ExitStatus,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Remedy,
    StopSignal,
)
from ascend_supervisor.workers.root_cause import (
    cause_first,
    cause_in_short,
    diagnosis,
    failure_text,
    root_cause,
)
from tests.terminals import FORGED, WORDS, steering

MOST_BYTES = 3800
FAILURE = Failure(
    name="rank 3",
    rank=3,
    generation=2,
    status=ExitStatus(1),
    runtime_seconds=12.34,
    oom_killed=None,
    log="/tmp/log/job-proc-rank-3-device-3.txt",
    last_lines=("Traceback (most recent call last):", "", "ValueError: no such file"),
)


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Crashed(FAILURE), "rank 3 failed first, in generation 2: it exited with status 1 after"),
        (Fault("no rank has written\nanything", 124), r"no rank has written\nanything"),
        (Completed(), ""),
    ],
)
def test_in_short_it_is_one_line(outcome, line):
    short = cause_in_short(Ended(outcome, 1.0))
    assert short.startswith(line)
    assert "\n" not in short
    assert bool(short) == bool(line)


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("rank 3 failed\nthe last lines", "rank 3 failed; no restarts were asked for"),
        ("a hang", "a hang; no restarts were asked for"),
        ("", "no restarts were asked for"),
        ("no restarts", "no restarts were asked for"),
    ],
    ids=["a failure", "a sentence", "none", "said already"],
)
def test_an_end_says_its_cause_before_the_restarts(cause, told):
    assert cause_first(cause, "no restarts were asked for") == told


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 1, in <module>',
    "ValueError: no \x1b[31msuch dataset",
)
IN_SHORT = "rank 3 failed first, in generation 2: it exited with status 1 after 12.3 s"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (replace(FAILURE, last_lines=TRACEBACK), f"{IN_SHORT}: ValueError: no such dataset; end"),
        (
            replace(FAILURE, last_lines=TRACEBACK, exception="RuntimeError: HCCL\nmore"),
            f"{IN_SHORT}: RuntimeError: HCCL; end",
        ),
        (
            replace(FAILURE, last_lines=TRACEBACK, meaning="a consequence: look at rank 5"),
            f"{IN_SHORT}: a consequence: look at rank 5; end",
        ),
        (replace(FAILURE, last_lines=("loss is nan",)), f"{IN_SHORT}; end"),
    ],
    ids=["its log", "its error file", "its meaning", "nothing"],
)
def test_of_a_failure_the_exception_is_said_where_nothing_else_says_why(failure, told):
    assert cause_first(failure, "end") == told
    short = cause_in_short(Ended(Crashed(failure), 1.0))
    assert short == told.removesuffix("; end")
    assert failure_text(failure).splitlines()[0] == short


def test_what_a_failure_says_itself_is_clipped_and_clips_nothing_else():
    """All that names the cause is the same, and an explanation of many words stays whole."""
    long = replace(FAILURE, said="ValueError: " + "x" * 5000)
    assert failure_text(long).splitlines()[0] == cause_in_short(Ended(Crashed(long), 1.0))
    full = replace(long, memory="y" * 900)
    assert failure_text(full).splitlines()[0] == f"{IN_SHORT}: {'y' * 900}"


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, "no_such_train.py"),
        (sys.executable, "-m", "no_such_train"),
        ("bash", "no_such_train.sh"),
        ("sh", "-c", "exec no_such_train"),
    ],
    ids=["a script", "a module", "a shell script", "a command of a shell"],
)
def test_of_a_rank_whose_script_is_missing_the_words_of_its_interpreter_are_said(command, tmp_path):
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = ("CANN is loaded", *ended.stderr.splitlines(), "")
    told = cause_first(replace(FAILURE, last_lines=lines), "end")
    assert told.startswith(f"{IN_SHORT}: ")
    assert "no_such_train" in told


def test_a_shell_that_complained_earlier_is_no_cause():
    lines = ("bash: cannot_know: command not found", "step 1: loss 0.2")
    assert cause_first(replace(FAILURE, last_lines=lines), "end") == f"{IN_SHORT}; end"


def test_a_long_cause_leaves_room_for_the_reason():
    told = cause_first("x" * 5000, "no restarts were asked for")
    assert told.endswith("...; no restarts were asked for")
    assert len(told) < 1000


def test_it_says_why_a_framework_ended_it():
    why = "MindSpore's scheduler had missed rank 8 before, on pod-1; look there for what ended it"
    killed = replace(FAILURE, status=ExitStatus(None, 15), reason=why)
    assert failure_text(killed).splitlines()[0] == (
        f"rank 3 failed first, in generation 2: it was killed by SIGTERM after 12.3 s: {why}"
    )


def test_it_says_what_its_words_mean_and_where_to_look():
    meaning = "EI0006: HCCL got no connection to another rank, a consequence: look at rank 5"
    lines = failure_text(replace(FAILURE, code="EI0006", meaning=meaning)).splitlines()
    assert lines[0] == (
        f"rank 3 failed first, in generation 2: it exited with status 1 after 12.3 s: {meaning}"
    )
    assert lines[1] == "the last lines of /tmp/log/job-proc-rank-3-device-3.txt:"


def test_it_says_who_when_how_and_the_last_lines():
    assert failure_text(FAILURE) == (
        "rank 3 failed first, in generation 2: it exited with status 1 after 12.3 s: "
        "ValueError: no such file\n"
        "the last lines of /tmp/log/job-proc-rank-3-device-3.txt:\n"
        "  Traceback (most recent call last):\n"
        "  ValueError: no such file"
    )


def test_it_says_what_the_error_file_holds():
    lines = failure_text(replace(FAILURE, exception=" RuntimeError: HCCL\n")).splitlines()
    assert lines[1] == "it raised: RuntimeError: HCCL"


STRANGE = "\n".join([*WORDS, FORGED])


def test_what_a_rank_wrote_is_indented_and_steers_no_terminal():
    """Its error file, its log, and the words in which a framework spoke of it."""
    failure = replace(
        FAILURE,
        reason=STRANGE,
        meaning=STRANGE,
        exception=STRANGE,
        last_lines=tuple(STRANGE.split("\n")[-18:]),
        log=f"/logs/{STRANGE}",
    )
    for kind in (failure, replace(failure, reason=None, meaning=None, last_lines=())):
        text = failure_text(kind)
        assert not steering(text)
        assert "\x1b" not in text
        heads = [line for line in text.split("\n") if not line.startswith("  ")]
        assert len(heads) == 3
        assert heads[0].startswith("rank 3 failed first, in generation 2: ")
        assert heads[1].startswith("it raised: ")
        assert heads[2].startswith(("the last lines of /logs/", "it wrote nothing to its log, "))


@pytest.mark.parametrize("outcome", [Fault(STRANGE, 69), NotStarted(73, STRANGE)])
def test_a_reason_is_one_line_that_steers_no_terminal(outcome):
    text = root_cause(Ended(outcome, 1.0))
    assert isinstance(text, str)
    assert not steering(text)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("oom_killed", "words"),
    [
        (True, "it was killed by SIGKILL, because memory ran out (the kernel's OOM killer) after"),
        (False, " after 12.3 s (the kernel's OOM counter did not rise)"),
        (None, "it was killed by SIGKILL after 12.3 s (whether memory ran out is unknown)"),
    ],
)
def test_a_lack_of_memory_is_told_as_a_fact_or_not_at_all(oom_killed, words):
    assert words in failure_text(
        replace(FAILURE, status=ExitStatus(None, 9), oom_killed=oom_killed)
    )


def test_a_process_that_the_kernel_killed_beside_the_rank_is_told_in_the_headline():
    ended = Ended(Crashed(replace(FAILURE, oom_kills=(3, 5))), 1.0)
    assert cause_in_short(ended) == (
        "rank 3 failed first, in generation 2: it exited with status 1 after 12.3 s; memory ran "
        "out before that: the kernel's OOM killer killed a process of our memory cgroup, such as a "
        "child of a rank (oom_kill rose from 3 to 5): ValueError: no such file"
    )


@pytest.mark.parametrize("last_lines", [(), ("",), ("", "  ")])
def test_a_log_that_is_empty_is_named(last_lines):
    text = failure_text(replace(FAILURE, last_lines=last_lines))
    assert text.endswith("\nit wrote nothing to its log, /tmp/log/job-proc-rank-3-device-3.txt")


STOP = StopSignal(15, 1.0)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Completed(), None),
        (NotStarted(127, "rank 0: 'x' was not found"), "rank 0: 'x' was not found"),
        (Crashed(FAILURE), FAILURE),
        (Fault("no progress for 600 s", 124), "no progress for 600 s"),
        (Interrupted(STOP), None),
        (Interrupted(STOP, FAILURE), FAILURE),
    ],
)
def test_every_outcome_has_its_cause(outcome, cause):
    assert root_cause(Ended(outcome, 1.0)) == cause


def test_the_first_failure_on_another_server_comes_before_what_followed_here():
    elsewhere = replace(FAILURE, name="rank 12 (on pod-1)")
    fault = Fault("rank 12 failed on pod-1", 1, Remedy.FINAL, cause=elsewhere)
    assert root_cause(Ended(fault, 1.0)) == elsewhere
    assert root_cause(Ended(Crashed(FAILURE), 1.0, (fault,))) == elsewhere


def test_a_failure_here_comes_before_a_fault_that_tells_of_none():
    fault = Fault("the table has changed", 69, Remedy.FREE)
    assert root_cause(Ended(Crashed(FAILURE), 1.0, (fault,))) == FAILURE


def test_the_last_twenty_usual_lines_are_all_told_and_no_more():
    lines = tuple(f"{n:2}: " + "x" * 150 for n in range(20))
    text = failure_text(replace(FAILURE, last_lines=("before", *lines)))
    assert text.endswith("-3.txt:\n  " + "\n  ".join(lines))


@pytest.mark.parametrize("character", ["x", "中", "\U0001f525"])
def test_the_last_of_many_long_lines_are_kept(character):
    lines = tuple(f"{n:2}: " + character * 500 for n in range(20))
    text = failure_text(replace(FAILURE, last_lines=lines))
    kept = [int(line[2:4]) for line in text.splitlines()[2:]]
    assert kept == list(range(20 - len(kept), 20))
    assert len(kept) >= 2
    assert len(text.encode()) <= MOST_BYTES


# A path that is not UTF-8 is decoded to such text, as sys.argv and os.environ are.
PATHS = st.text(st.characters(codec="utf-8") | st.characters(categories=["Cs"]), max_size=300)
FAILURES = st.builds(
    Failure,
    name=st.text(max_size=300),
    rank=st.none() | st.integers(0, 10**6),
    generation=st.integers(0, 10**6),
    status=st.integers(0, 255).map(ExitStatus)
    | st.integers(1, 64).map(lambda number: ExitStatus(None, number)),
    runtime_seconds=st.floats(0, 1e9),
    oom_killed=st.none() | st.booleans(),
    oom_kills=st.none() | st.tuples(st.integers(0), st.integers(0)),
    log=PATHS,
    exception=st.none() | st.text() | st.text(min_size=1).map(lambda text: text * 1500),
    last_lines=st.lists(
        st.text() | st.text(min_size=1).map(lambda text: text * 300), max_size=40
    ).map(tuple),
)


@given(FAILURES)
@example(replace(FAILURE, exception="\U0001f525" * 2000))
@example(replace(FAILURE, log="/logs/\udcff/rank.txt"))
def test_it_always_fits_a_termination_log(failure):
    assert len(failure_text(failure).encode(errors="backslashreplace")) <= MOST_BYTES


@pytest.mark.parametrize("outcome", [Fault("x" * 9000, 124), NotStarted(69, "x" * 9000)])
def test_a_reason_fits_as_well(outcome):
    text = root_cause(Ended(outcome, 1.0))
    assert isinstance(text, str)
    size = len(text.encode())
    assert size <= MOST_BYTES


BUSY = ("EJ0001: busy",)


def test_the_failure_here_was_looked_at_and_of_another_server_only_the_id_counts():
    known = diagnosis_by(CAUSES["EJ0001"], 3)
    mine = Failure("rank 3", 3, 0, ExitStatus(1), 1.0, last_lines=BUSY)
    ended = Ended(Crashed(mine), 1.0)
    assert diagnosis(mine, ended) is None
    assert diagnosis(replace(mine, last_lines=()), ended) is None
    looked = Ended(Crashed(replace(mine, diagnosis=known)), 1.0)
    assert diagnosis(mine, looked) == known
    theirs = replace(mine, generation=1)
    assert diagnosis(theirs, looked) == known
    assert diagnosis(replace(theirs, is_shared=True), looked) is None
    steering = replace(known, text="\x1b[2J\nroot@host#", layer="user")
    assert diagnosis(replace(theirs, diagnosis=steering), looked) == known
    strange = replace(known, id="of-a-later-version")
    assert diagnosis(replace(theirs, diagnosis=strange), looked) is None
    assert diagnosis("a sentence", looked) is None
