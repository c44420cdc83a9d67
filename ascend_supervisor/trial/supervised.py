"""A supervisor that is started as users start it, and the events that it tells on its stdout."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ascend_supervisor.imports import HOME
from ascend_supervisor.report.told import ToldEvent, moment, text

SUPERVISOR = (sys.executable, "-m", "ascend_supervisor", "--event-log=none")
STARTED = "training.started"
"""The event that tells the first all-reduce of a generation."""
GRACE_SECONDS = 20.0
END_SECONDS = GRACE_SECONDS + 20.0
"""From SIGTERM to the end of a supervisor: the grace of its ranks, the kill, what it writes."""
PIECE_BYTES = 64 * 1024


class StepFailed(Exception):
    """A step went otherwise than it should; the text says how."""


class Supervised:
    """Runs in a directory of its own, to be used as a context: nothing of it runs afterwards.

    ``until`` is a time of time.monotonic: nothing is waited for longer. ``look`` is called
    whenever its ranks have begun to train.
    """

    def __init__(
        self,
        directory: Path,
        words: Sequence[str],
        environ: Mapping[str, str],
        until: float,
        look: Callable[[], object],
    ) -> None:
        directory.mkdir()
        self._look = look
        self._until = until
        self._copy = (directory / "events.jsonl").open("wb", buffering=0)
        self._rest = b""
        self._unread: list[ToldEvent] = []
        self.heard: list[ToldEvent] = []
        places = {
            "log-dir": directory / "log",
            "work-dir": directory / "work",
            "state-file": directory / "state.json",
            "termination-log": directory / "termination-log",
        }
        options = [f"--{name}={place}" for name, place in places.items()]
        with (directory / "stderr.txt").open("wb") as stderr:
            self._process = subprocess.Popen(
                [*SUPERVISOR, *options, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environ,
                cwd=HOME,
                start_new_session=True,  # Ctrl-C is ours to pass on
            )

    def __enter__(self) -> Supervised:  # noqa: PYI034  (Self is of 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with suppress(StepFailed):
                self.stopped()
        finally:
            if self._process.poll() is None:
                self._process.kill()  # its guardian kills the ranks
                self._process.wait()
            self._copy.close()
            assert self._process.stdout is not None  # noqa: S101  (it is a pipe)
            self._process.stdout.close()

    def heard_next(self, seconds: float, *names: str, **keys: Any) -> ToldEvent:
        """The next event of one of these names with these keys; raises StepFailed without it."""
        began = time.monotonic()
        end = min(began + seconds, self._until)
        while True:
            while self._unread:
                event = self._unread.pop(0)
                self.heard.append(event)
                if event["event"] == STARTED:
                    self._look()
                if event["event"] in names and keys.items() <= event.items():
                    return event
            wanted = f"expected {' or '.join(names)}{_told(keys)}"
            last = text(self.heard[-1], "msg") if self.heard else "nothing"
            if time.monotonic() >= end:
                waited = round(time.monotonic() - began)
                raise StepFailed(f"{wanted}, none came within {waited} s; it said last: {last}")
            if not self._hears(end):
                raise StepFailed(f"{wanted}; the supervisor ended and said last: {last}")

    def stopped(self) -> int:
        """Its exit code after a SIGTERM; raises StepFailed if it stays."""
        self._process.send_signal(signal.SIGTERM)
        return self.ended(END_SECONDS)

    def ended(self, seconds: float) -> int:
        """Its exit code when it has ended; raises StepFailed if it has not in time."""
        end = time.monotonic() + seconds
        while self._hears(end):
            if time.monotonic() >= end:
                raise StepFailed(f"the supervisor has not ended within {seconds:g} s")
        self.heard += self._unread
        self._unread = []
        try:
            code = self._process.wait(max(end - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            raise StepFailed("the supervisor has closed its stdout, and runs on") from None
        return code if code >= 0 else 128 - code

    def rank_pid(self, rank: int) -> int:
        """The process of a rank that was started last; raises StepFailed if none was."""
        for event in reversed(self.heard):
            if event["event"] == "process.started" and event.get("rank") == rank:
                return int(event["child_pid"])
        raise StepFailed(f"rank {rank} was not started")

    def _hears(self, end: float) -> bool:
        """Read what comes until ``end`` at the latest; false at the end of all events."""
        assert self._process.stdout is not None  # noqa: S101
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
            return True
        piece = os.read(pipe, PIECE_BYTES)
        self._copy.write(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            with suppress(orjson.JSONDecodeError):
                event = orjson.loads(line)
                if isinstance(event, dict) and moment(event) is not None:
                    self._unread.append(event)
        return bool(piece)


def seconds_to(event: ToldEvent, since: float) -> float:
    """From ``since``, a time of time.time, to the moment of an event."""
    return round((moment(event) or 0) / 1e6 - since, 3)


def _told(keys: Mapping[str, Any]) -> str:
    return "".join(f", {name} {value}" for name, value in keys.items())
