"""A program: a rank of a simulated cluster, which says who it is and what table it was given.

    rank.py ON_TERM ROOM

At SIGTERM it ``ends``, or ``ignores`` it, or ``saves``: ends with 0 once there is a file ROOM.
SIGUSR1 makes it fail as one that has lost a peer, SIGUSR2 with an exception of its own. SIGALRM
ends it with 0, as a training that is over.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOST_PEER = (
    b"RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.2]:3155\n"
    b"Process SpawnProcess-1:\nTraceback (most recent call last):\n"
    b'  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap\n'
    b'  File "train.py", line 2, in load\n'
    b"FileNotFoundError: [Errno 2] No such file or directory: '/tmp/shard'\n"
)
"""A data loader that then loses its rank says so, too."""
OWN_FAULT = (
    b'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
    b"ValueError: the loss is not a number\n"
)


def hosts() -> list[tuple[str, list[int]]]:
    """The servers of the table, and their ranks."""
    listed = json.loads(Path(os.environ["RANK_TABLE_FILE"]).read_bytes())["server_list"]
    return [
        (server["server_id"], [int(device["rank_id"]) for device in server["device"]])
        for server in listed
    ]


def tell_who_i_am() -> None:
    me = os.environ["RANK"] + " of " + os.environ["WORLD_SIZE"]
    write(f"rank {me} among {' '.join(name for name, _ in hosts())}\n".encode())


def write(words: bytes) -> None:
    """At once: print may interrupt itself in a signal handler."""
    os.write(1, words)


def failing_with(words: bytes) -> Callable[..., None]:
    def fail(*_: object) -> None:
        write(words)
        os._exit(1)

    return fail


def main(on_term: str, room: str) -> None:
    is_asked = False

    def ask(*_: object) -> None:
        nonlocal is_asked
        is_asked = True
        write(b"asked to end\n")

    signal.signal(signal.SIGUSR1, failing_with(LOST_PEER))
    signal.signal(signal.SIGUSR2, failing_with(OWN_FAULT))
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    if on_term != "ends":
        signal.signal(signal.SIGTERM, ask)
    tell_who_i_am()
    while not (is_asked and on_term == "saves" and Path(room).exists()):
        time.sleep(0.02)  # a signal just before a sleep does not end it
    write(b"saved\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
