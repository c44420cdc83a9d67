"""A supervisor as its users run it: a process of its own, whose events are read from its stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 30.0
"""For everything that a test waits for; nothing takes a tenth of it on an idle machine."""
MARK = "TEST_CASE_MARK"

Event = dict[str, Any]


class Running:
    """Start it, wait for events, signal it, and ask what it has left."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        python: str = sys.executable,
        stdout: int | None = None,
    ) -> None:
        """Everything it writes is below ``root``; ``before`` are words before the interpreter.

        With a ``stdout`` of the test's own there are no events to wait for.
        """
        self.root = root
        self.mark = f"{root}-{time.monotonic_ns()}"
        mount = root / "modelarts"
        (mount / "log").mkdir(parents=True, exist_ok=True)
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
        }
        self.process = subprocess.Popen(
            [*before, python, "-m", "ascend_supervisor", *arguments],
            env={
                **inherited,
                "MA_MOUNT_PATH": str(mount),
                "MA_VJ_NAME": "ma-job-test",
                "MA_CURRENT_INSTANCE_NAME": "job-test-0",
                MARK: self.mark,
                **(environ or {}),
            },
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
        )
        self.events: list[Event] = []
        self.stderr = ""
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read_stderr, daemon=True)]
        if stdout is None:
            self._readers.append(threading.Thread(target=self._read_events, daemon=True))
        for reader in self._readers:
            reader.start()

    @property
    def log_dir(self) -> Path:
        return self.root / "modelarts" / "log"

    def log(self, rank: int, device: int | None = None) -> Path:
        index = rank if device is None else device
        return self.log_dir / f"modelarts-job-test-proc-rank-{rank}-device-{index}.txt"

    def wait_for(self, name: str, **keys: Any) -> Event:
        """The first event of this name with these keys, as soon as there is one."""
        return next(self.each(name, **keys))

    def each(self, name: str, **keys: Any) -> Iterator[Event]:
        """All events of this name with these keys, as they come."""
        end = time.monotonic() + DEADLINE_SECONDS
        seen = 0
        while True:
            with self._news:
                while len(self.events) == seen:
                    left = end - time.monotonic()
                    if left < 0 or not self._news.wait(left):
                        raise AssertionError(self._missing(name, keys))
                    if self._over and len(self.events) == seen:
                        raise AssertionError(self._missing(name, keys))
                event = self.events[seen]
                seen += 1
            if event["event"] == name and all(event.get(key) == keys[key] for key in keys):
                yield event

    def all(self, name: str, **keys: Any) -> list[Event]:
        """The events of this name with these keys so far."""
        return [
            event
            for event in self.events
            if event["event"] == name and all(event.get(key) == keys[key] for key in keys)
        ]

    def said(self, rank: int, generation: int = 0) -> list[str]:
        """The lines of a rank that were mirrored so far."""
        return [e["message"] for e in self.all("output", rank=rank, generation=generation)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end; gives the exit code, 128 + n for a signal."""
        code = self.process.wait(DEADLINE_SECONDS)
        for reader in self._readers:
            reader.join(DEADLINE_SECONDS)
        return code if code >= 0 else 128 - code

    def survivors(self) -> list[str]:
        """Command lines of the processes of this case that still live."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environ = (process / "environ").read_bytes()
                state = (process / "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{MARK}={self.mark}".encode() in environ.split(b"\0") and state not in "ZX":
                found.append(f"{process.name} {command!r}")
        return found

    def kill(self) -> None:
        """Whatever happened: nothing of this case may outlive it."""
        if self.process.poll() is None:
            self.process.kill()
        for survivor in self.survivors():
            os.kill(int(survivor.split()[0]), signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    _over = False

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            with self._news:
                self.events.append(event)
                self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self.stderr = self.process.stderr.read().decode()

    def _missing(self, name: str, keys: Mapping[str, Any]) -> str:
        seen = "\n".join(f"  {e['seq']} {e['event']}: {e['msg']}" for e in self.events[-40:])
        return f"no event {name} {dict(keys)}; seen:\n{seen}\nstderr: {self.stderr}"


def python(source: str) -> list[str]:
    """The words that run ``source`` as a rank."""
    return ["--", sys.executable, "-c", source]
