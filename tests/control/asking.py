"""A client of the control socket, as anybody could write it."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from ascend_supervisor.files.socket_file import connect
from tests.running import DEADLINE_SECONDS, Running, wait_until

Answered = dict[str, Any]


def socket_of(job: Running) -> Path:
    return job.log_dir / "modelarts-job-test-supervisor-job-test-0.json.sock"


def connected(path: Path, seconds: float = DEADLINE_SECONDS) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), 0))
    try:
        connect(client, path)
    except BaseException:
        client.close()
        raise
    client.settimeout(seconds)
    return client


def read_line(client: socket.socket) -> bytes:
    """What comes up to a newline, or to the end."""
    received = b""
    while not received.endswith(b"\n"):
        try:
            piece = client.recv(1 << 16)
        except ConnectionResetError:  # it has not read all that we wrote
            break
        if not piece:
            break
        received += piece
    return received


def told(path: Path, line: bytes) -> Answered:
    """The answer to ``line``, whatever that is."""
    with connected(path) as client:
        with suppress(BrokenPipeError):  # it has answered before it has read all
            client.sendall(line)
        answer: Answered = json.loads(read_line(client))
    return answer


def ask(path: Path, request: str, **members: Any) -> Answered:
    line = json.dumps({"version": 1, "request": request, **members}).encode()
    return told(path, line + b"\n")


def ask_job(job: Running, request: str, **members: Any) -> Answered:
    """Ask a supervisor, as soon as it listens."""
    wait_until(socket_of(job).exists)
    return ask(socket_of(job), request, **members)
