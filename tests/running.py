"""A supervisor as its users run it: a process of its own, whose events are read from its stdout."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 60.0
"""For everything that a test waits for; nothing takes a twentieth of it on an idle machine.

What a test tells from it (a sleep of its rank, a grace) is ten times as long, or more.
"""
MARK = "TEST_CASE_MARK"

END_MAIN_THREAD = """
import ctypes, os
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit(2)
"""
"""The rest of a program: its main thread ends, and the threads that it has started go on."""

HIDE = """
import ctypes, pathlib
fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
start, end = map(int, fields[47:49])
ctypes.memset(start, 0, end - start)
"""
"""As setproctitle does: /proc shows no environment from now on."""

FORBIDS = """
import ctypes, os, struct, sys
cut = sys.argv.index("--")
number, *calls = map(int, sys.argv[1:cut])
code = [(0x20, 0, 0, 0)]
for call in calls:
    code += [(0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | number)]
code.append((0x06, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
where = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.create_string_buffer(where), 0, 0) == 0  # PR_SET_SECCOMP
os.execvp(sys.argv[cut + 1], sys.argv[cut + 1 :])
"""
"""``python -c FORBIDS ERRNO CALL... -- COMMAND``: these system calls fail so, as by seccomp."""

Event = dict[str, Any]


def begins_in_python(*options: str) -> str:
    """The first lines of an executable file in Python: ``#!`` knows no path with a blank in it."""
    words = shlex.join((sys.executable, *options))
    return f"""#!/bin/sh
'''exec' {words} "$0" "$@" #'''"""


class Running:
    """Start it, wait for events, signal it, and ask what it has left."""

    def __init__(
        self,
        root: Path,
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        python: str = sys.executable,
        program: Sequence[str] = ("-m", "ascend_supervisor"),
        stdout: int | None = None,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        """Everything it writes is below ``root``; ``before`` are words before the interpreter.

        ``program`` are the words after the interpreter that start the supervisor.

        With a ``stdout`` of the test's own there are no events to wait for. Nothing that is waited
        for may take longer than ``deadline`` seconds.
        """
        self.root = root
        self._deadline = deadline
        self._forked = "--fork" in before
        self._pid: int | None = None
        self.mark = f"{root}-{time.monotonic_ns()}"
        mount = root / "modelarts"
        (mount / "log").mkdir(parents=True, exist_ok=True)
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
        }
        self.process = subprocess.Popen(
            [*before, python, *program, *arguments],
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
    def pid(self) -> int:
        """The supervisor's, as we see it, where a word of ``before`` forks too (unshare)."""
        if self._pid is None:
            self._pid = self._child() if self._forked else self.process.pid
        return self._pid

    def _child(self) -> int:
        wrapper = self.process.pid
        children = Path(f"/proc/{wrapper}/task/{wrapper}/children")
        end = time.monotonic() + self._deadline
        while not (found := children.read_text().split()):
            assert time.monotonic() < end, f"{self.process.args!r} has not started the supervisor"
            time.sleep(0.0005)
        return int(found[0])

    def wait_until_it_catches(self, number: signal.Signals) -> None:
        """Until Python has a handler for this signal; before, the kernel's own rules hold."""
        end = time.monotonic() + self._deadline
        while not int(_fact(self.pid, "SigCgt"), 16) & 1 << (number - 1):
            assert time.monotonic() < end
            time.sleep(0.0005)

    @property
    def memory(self) -> int:
        """Its resident set, in bytes."""
        return int(_fact(self.pid, "VmRSS").removesuffix(" kB")) * 1024

    @property
    def threads(self) -> int:
        return int(_fact(self.pid, "Threads"))

    @property
    def open_files(self) -> list[str]:
        """What its file descriptors stand for."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.append(str(link.readlink()))
        return sorted(found)

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
        """All events of this name with these keys, as they come; the deadline is for each."""
        end = time.monotonic() + self._deadline
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
                end = time.monotonic() + self._deadline

    def all(self, name: str, **keys: Any) -> list[Event]:
        """The events of this name with these keys so far."""
        return [
            event
            for event in self.events
            if event["event"] == name and all(event.get(key) == keys[key] for key in keys)
        ]

    def said(self, rank: int, generation: int = 0) -> list[str]:
        """The lines of a rank that were mirrored so far."""
        return [e["msg"] for e in self.all("output", rank=rank, generation=generation)]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end; gives the exit code, 128 + n for a signal."""
        code = self.process.wait(self._deadline)
        for reader in self._readers:
            reader.join(self._deadline)
        return code if code >= 0 else 128 - code

    def survivors(self) -> list[str]:
        """Pids and command lines of the processes of this case that still live."""
        found = []
        for pid in self.pids():
            with suppress(OSError):
                found.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes()!r}")
        return found

    def pids(self) -> list[int]:
        """The processes of this case that live, the supervisor among them, as we see them."""
        # Of a process whose main thread has ended only the other threads show anything.
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                if any(map(self._is_of_this_case, process.glob("task/[0-9]*"))):
                    found.append(int(process.name))
        return found

    def _is_of_this_case(self, thread: Path) -> bool:
        with suppress(OSError):
            environ = (thread / "environ").read_bytes()
            state = (thread / "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
            return f"{MARK}={self.mark}".encode() in environ.split(b"\0") and state not in "ZX"
        return False

    @property
    def guardians(self) -> list[int]:
        """The programs that end what it leaves when it is killed; as PID 1 it has none."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if b"guardian.py" in words and f"@{self.root}/".encode() in words:
                    found.append(int(process.name))
        return found

    def kill_guardians(self) -> None:
        for pid in self.guardians:
            os.kill(pid, signal.SIGKILL)

    def seen_from_here(self, pid: int) -> int:
        """The number that a process of this case has for us, where ``pid`` is its own number."""
        end = time.monotonic() + self._deadline
        while time.monotonic() < end:  # in the middle of an exec it has no environment
            for found in self.pids():
                with suppress(OSError):
                    if int(_fact(found, "NSpid").split()[-1]) == pid:
                        return found
        raise AssertionError(f"no process {pid} of this case; there are {self.survivors()}")

    def kill(self) -> None:
        """Whatever happened: nothing of this case may outlive it."""
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
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


def _fact(pid: int, name: str) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(
        line.partition(":")[2].strip() for line in status.splitlines() if line.startswith(name)
    )


def wait_until(holds: Callable[[], object]) -> None:
    """Look, often, until something holds that makes no event."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def seconds_between(first: Event, last: Event) -> float:
    """By the clock of the supervisor that has told both."""
    moments = [datetime.fromisoformat(event["ts"].rstrip("Z")) for event in (first, last)]
    return (moments[1] - moments[0]).total_seconds()


def with_constants(**values: float) -> tuple[str, ...]:
    """The ``program`` of a supervisor in which these constants have other values.

    ``alerts_post__TRY_SECONDS`` is TRY_SECONDS in alerts/post.py. What must not be waited for takes
    so long then that no busy machine does.
    """
    source = "from importlib import import_module\n"
    for name, value in values.items():
        file, constant = name.split("__")
        room, _, module = file.partition("_")
        source += f"module = import_module('ascend_supervisor.{room}.{module}')\n"
        source += f"module.{constant} = {value} + 0 * module.{constant}  # it must be there\n"
    return "-c", source + "from ascend_supervisor.__main__ import main\nmain()"


def python(source: str) -> list[str]:
    """The words that run ``source`` as a rank."""
    return ["--", sys.executable, "-c", source]
