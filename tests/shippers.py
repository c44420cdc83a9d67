"""Log shippers as a server runs them, with the configurations of conf/, and a loghost for them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.running import DEADLINE_SECONDS

ROOT = Path(__file__).parents[1]
UNPACKED = ROOT / ".venvs" / "shippers" / "root"
"""Where scripts/unpacked-packages puts them: they cannot be installed beside each other."""

NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""What stands for such a byte where Python has decoded it with surrogateescape."""

Words = Callable[[Path, Path], list[str]]


class Shipper(Struct, frozen=True):
    """One of them; ``words`` are its options, with a configuration and a directory for state."""

    name: str
    program: str
    package: str
    words: Words
    invalid: Callable[[int], str]
    """What becomes of a byte that is not UTF-8."""

    def shows(self, line: bytes) -> str:
        """A line of a rank, without its end, as it arrives."""
        text = line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
        return NOT_UTF_8.sub(lambda found: self.invalid(ord(found[0]) - 0xDC00), text)


def _rsyslog(configuration: Path, state: Path) -> list[str]:
    (modules,) = UNPACKED.glob("usr/lib/*/rsyslog")
    return ["-n", "-i", f"{state}/pid", "-M", str(modules), "-f", str(configuration)]


def _syslog_ng(configuration: Path, state: Path) -> list[str]:
    (modules,) = UNPACKED.glob("usr/lib/syslog-ng/[0-9]*")
    files = [f"--{kind}={state}/{kind}" for kind in ("persist-file", "pidfile", "control")]
    return ["-F", "--no-caps", f"--module-path={modules}", f"--cfgfile={configuration}", *files]


SHIPPERS = (
    Shipper("rsyslog", "rsyslogd", "rsyslog", _rsyslog, lambda _: " "),
    Shipper("syslog-ng", "syslog-ng", "syslog-ng-core", _syslog_ng, lambda byte: f"\\x{byte:02x}"),
)


class Loghost:
    """Takes JSON lines over TCP on loopback: those that are events, and those of ranks."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.rank_lines: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, events: int, rank_lines: int) -> None:
        """Until so many have come."""
        with self._news:
            assert self._news.wait_for(
                lambda: len(self.events) >= events and len(self.rank_lines) >= rank_lines,
                DEADLINE_SECONDS,
            ), f"{len(self.events)} of {events}, {len(self.rank_lines)} of {rank_lines} came"

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        with self._news:
            if line.startswith(b'{"seq":'):
                self.events.append(line)
            else:
                self.rank_lines.append(json.loads(line))
            self._news.notify_all()


class Service:
    """A shipper that is started and stopped, and keeps its state meanwhile."""

    def __init__(self, shipper: Shipper, place: Path, loghost: Loghost) -> None:
        """It reads the files in ``place/log``."""
        self._program = UNPACKED / "usr" / "sbin" / shipper.program
        if not self._program.exists():
            pytest.skip(f"{shipper.name} is missing (scripts/unpacked-packages {shipper.package})")
        self.log_dir = place / "log"
        self.shipper = shipper
        state = place / "state"
        for directory in (self.log_dir, state):
            directory.mkdir()
        configuration = place / f"{shipper.name}.conf"
        text = (ROOT / "conf" / configuration.name).read_text(encoding="utf-8")
        for standard, ours in (
            ("/var/log/ascend", str(self.log_dir)),
            ("/var/lib/rsyslog", str(state)),
            ("loghost", "127.0.0.1"),
            ("5170", str(loghost.port)),
        ):
            text = text.replace(standard, ours)
        configuration.write_text(text, encoding="utf-8")
        self._words = [str(self._program), *shipper.words(configuration, state)]
        machine = f"{os.uname().machine}-linux-gnu"
        places = ("usr/lib/syslog-ng", f"usr/lib/{machine}", f"lib/{machine}")
        self._libraries = ":".join(str(UNPACKED / name) for name in places)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {**os.environ, "LD_LIBRARY_PATH": self._libraries}
        self._process = subprocess.Popen(self._words, env=environ, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(DEADLINE_SECONDS)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
