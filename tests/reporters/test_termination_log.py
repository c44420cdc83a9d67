"""The termination log: the root cause of a failure, and nothing of a success."""

from __future__ import annotations

import pytest

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import GenerationStarted
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.reporters.termination_log import termination_log, write_termination_log

CAUSE = "rank 3 failed first, in generation 0: it exited with status 1 after 12.3 s"


def told(*events: Event) -> list[bytes]:
    contents: list[bytes] = []
    report = termination_log(contents.append)
    for event in events:
        report(event)
    return contents


def exited(code: int, cause: str | None = CAUSE, reason: str = "no restarts") -> Event:
    return SupervisorExited(code, reason, 1, cause)


@pytest.mark.parametrize(
    ("event", "texts"),
    [
        (exited(0, None), []),
        (exited(0), []),
        (GenerationStarted(0, 0), []),
        (ExitLingering(30.0, 1, "no restarts", CAUSE), [f"{CAUSE}\n".encode()]),
        (exited(1), [f"{CAUSE}\n".encode()]),
        (exited(143, None, "told to stop"), [b"told to stop; ending with exit code 143\n"]),
        (exited(1, "caf\udce9"), [rb"caf\udce9" + b"\n"]),
    ],
)
def test_only_a_failure_is_told(event, texts):
    assert told(event) == texts


@pytest.mark.parametrize("character", ["x", "é", "中", "\U0001f525"])
def test_it_is_cut_between_two_characters_where_kubernetes_would_cut_it(character):
    for lead in range(4):
        (text,) = told(exited(1, "-" * lead + character * 9000))
        assert 4000 < len(text) <= 4096
        assert set(text.decode(errors="replace")) <= {"-", character, "\n"}


def test_the_explanation_and_the_account_are_kept_whole_where_the_cause_is_cut():
    event = SupervisorExited(
        1, "no restarts", 1, "很" * 3000, explained="磁盘已满", trained="trained"
    )
    (text,) = told(event)
    assert 4090 < len(text) <= 4096
    lines = text.decode().splitlines()
    assert (lines[0], lines[-1]) == ("磁盘已满", "trained")


def test_where_there_is_no_room_the_last_line_of_the_rank_is_kept():
    lines = [f"  line {number} {'x' * 190}" for number in range(19)]
    cause = "\n".join((CAUSE, "the last lines of /log/rank-3.txt:", *lines, "  the error"))
    assert len(cause) < 4096
    event = SupervisorExited(1, "no restarts", 1, cause, explained="很" * 200, trained="trained")
    (text,) = told(event)
    found = text.decode().splitlines()
    assert len(text) <= 4096
    assert found[:3] == ["很" * 200, CAUSE, "the last lines of /log/rank-3.txt:"]
    assert found[3].startswith("  line ")
    assert found[-2:] == ["  the error", "trained"]


@pytest.mark.parametrize("before", [None, b"", b"short", b"x" * 4096])
def test_the_file_holds_the_text_whatever_it_held(tmp_path, before):
    path = tmp_path / "termination-log"
    if before is not None:
        path.write_bytes(before)
    write_termination_log(path, b"the cause\n")
    assert path.read_bytes() == b"the cause\n"


def test_the_file_is_written_in_place_because_it_is_a_mount(tmp_path):
    path = tmp_path / "termination-log"
    path.touch()
    before = path.stat()
    write_termination_log(path, b"the cause\n")
    assert (path.stat().st_ino, path.stat().st_dev) == (before.st_ino, before.st_dev)


def test_a_file_that_cannot_be_written_is_an_error_for_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_termination_log(tmp_path / "nowhere" / "termination-log", b"x")
