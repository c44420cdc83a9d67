"""What a failed process left: files that a stranger may have made of anything."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest

from ascend_supervisor.outcome import Failure
from ascend_supervisor.output.last_lines import TAIL_BYTES
from ascend_supervisor.output.launcher_logs import WorkerLogs
from ascend_supervisor.output.pump import Sink
from ascend_supervisor.output.rank_output import RankOutput
from ascend_supervisor.process_spec import Culprit, Exhibit, ProcessSpec
from ascend_supervisor.processes.children import Children
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.workers.examination import HEAD_BYTES, examined
from ascend_supervisor.workers.process import start
from ascend_supervisor.workers.verdict import Death
from tests.running import DEADLINE_SECONDS


@dataclass
class Everything:
    """A testimony that wants to see all that is there."""

    directory: Path
    seen: Sequence[Exhibit] = ()

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


async def death_of(spec: ProcessSpec) -> Death:
    children, clock = Children(), MonotonicClock()
    workers = WorkerLogs(spec, lambda _: None, clock, lambda _: None)
    output = RankOutput(Sink(None, None, clock), workers)
    process = await start(spec, output, children, os.environ, 0.0)
    while process.status is None:
        children.reap()
    process.output.finish()
    return Death(process, 0, process.status, 1.0, 1.0, None)


async def looked_at(spec: ProcessSpec) -> Failure:
    """The failure, examined in a thread as the supervisor does; it may not hang."""
    death = await death_of(spec)
    found: list[Failure] = []
    thread = threading.Thread(target=lambda: found.append(examined(death, [], {})), daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    return found[0]


def with_error_file(path: Path) -> ProcessSpec:
    return ProcessSpec(("false",), Path("/"), Path("/log"), error_file=path)


def make_socket(path: Path) -> None:
    os.mknod(path, 0o140644)


def make_terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def make_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


STRANGE = [os.mkfifo, os.mkdir, make_socket, make_terminal, make_zeros]


@pytest.mark.parametrize("make", STRANGE)
async def test_an_error_file_that_is_no_file_tells_nothing_and_keeps_nobody(tmp_path, make):
    make(tmp_path / "error.json")
    assert (await looked_at(with_error_file(tmp_path / "error.json"))).exception is None


@pytest.mark.parametrize("make", STRANGE)
async def test_a_strange_file_does_not_hide_the_others(tmp_path, make):
    (tmp_path / "worker.log").write_bytes(b"a" * HEAD_BYTES + b"b" * TAIL_BYTES)
    make(tmp_path / "strange")
    testimony = Everything(tmp_path)
    await looked_at(ProcessSpec(("false",), Path("/"), Path("/log"), testimony=testimony))
    seen = {str(exhibit.path): (exhibit.head, exhibit.tail) for exhibit in testimony.seen}
    assert seen == {
        "worker.log": (b"a" * HEAD_BYTES, b"b" * TAIL_BYTES),
        "strange": (b"", b""),
    }


async def test_an_error_file_is_read_through_a_link(tmp_path):
    (tmp_path / "real").write_text(json.dumps({"message": "RuntimeError: HCCL"}))
    (tmp_path / "error.json").symlink_to("real")
    assert (
        await looked_at(with_error_file(tmp_path / "error.json"))
    ).exception == "RuntimeError: HCCL"
