"""What a failed process left: files that a stranger may have made of anything."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest

from ascend_supervisor.launchers.failure_words import Culprit, Exhibit
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.outcome import ExitStatus, Failure
from ascend_supervisor.workers.failure import HEAD_BYTES, TAIL_BYTES, examined
from tests.running import DEADLINE_SECONDS

FAILURE = Failure(
    name="rank 0",
    rank=0,
    generation=0,
    status=ExitStatus(1),
    runtime_seconds=1.0,
    oom_killed=None,
    log="/log",
    last_lines=(),
)


@dataclass
class Everything:
    """A testimony that wants to see all that is there."""

    directory: Path
    seen: Sequence[Exhibit] = ()
    workers: int = 1

    @property
    def exhibits(self) -> tuple[PurePath, str]:
        return self.directory, "*"

    def culprit(
        self,
        lines: Sequence[str],
        exhibits: Sequence[Exhibit],
        ranks: Mapping[int, int],
    ) -> Culprit | None:
        self.seen = exhibits
        return None

    def false_success(self, lines: Sequence[str]) -> str | None:
        return None


def looked_at(spec: ProcessSpec) -> Failure:
    """The failure, examined in a thread as the supervisor does; it may not hang."""
    found: list[Failure] = []
    thread = threading.Thread(
        target=lambda: found.append(examined(FAILURE, spec, [], [], {})), daemon=True
    )
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    return found[0]


def with_error_file(path: Path) -> ProcessSpec:
    return ProcessSpec(("true",), Path("/"), Path("/log"), error_file=path)


def make_socket(path: Path) -> None:
    os.mknod(path, 0o140644)


def make_terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def make_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


STRANGE = [os.mkfifo, os.mkdir, make_socket, make_terminal, make_zeros]


@pytest.mark.parametrize("make", STRANGE)
def test_an_error_file_that_is_no_file_tells_nothing_and_keeps_nobody(tmp_path, make):
    make(tmp_path / "error.json")
    assert looked_at(with_error_file(tmp_path / "error.json")) == FAILURE


@pytest.mark.parametrize("make", STRANGE)
def test_a_strange_file_does_not_hide_the_others(tmp_path, make):
    (tmp_path / "worker.log").write_bytes(b"a" * HEAD_BYTES + b"b" * TAIL_BYTES)
    make(tmp_path / "strange")
    testimony = Everything(tmp_path)
    looked_at(ProcessSpec(("true",), Path("/"), Path("/log"), testimony=testimony))
    seen = {str(exhibit.path): (exhibit.head, exhibit.tail) for exhibit in testimony.seen}
    assert seen == {
        "worker.log": (b"a" * HEAD_BYTES, b"b" * TAIL_BYTES),
        "strange": (b"", b""),
    }


def test_an_error_file_is_read_through_a_link(tmp_path):
    (tmp_path / "real").write_text(json.dumps({"message": "RuntimeError: HCCL"}))
    (tmp_path / "error.json").symlink_to("real")
    assert looked_at(with_error_file(tmp_path / "error.json")).exception == "RuntimeError: HCCL"
