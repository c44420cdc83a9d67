"""A program: a rank with a connection to every other rank, as those of a collective have.

    meshed_rank.py ON_TERM ROOM

Its arguments are those of rank.py, and do nothing. Once it has met all others it says who it is.
When a connection ends, it fails with gloo's words. SIGALRM ends it with 0, as a training that is
over; the others then do not miss it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from tests.recovery.rank import hosts, tell_who_i_am, write

PORT = 29500
"""Of rank 0; the others follow."""
SECONDS = 60.0
STEP_SECONDS = 0.05
"""A signal just before a wait does not end it."""
OVER = b"over"


def met(rank: int, places: dict[int, str]) -> list[socket.socket]:
    """A connection to each other rank, once there are all of them."""
    listener = socket.create_server((places[rank], PORT + rank), backlog=len(places))
    listener.settimeout(SECONDS)
    lower = [connected(places[rank], places[other], PORT + other) for other in range(rank)]
    return lower + [listener.accept()[0] for _ in range(rank + 1, len(places))]


def connected(here: str, there: str, port: int) -> socket.socket:
    end = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((there, port), SECONDS, (here, 0))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def wait_for_the_end(peers: list[socket.socket]) -> None:
    """Until all of ``peers`` have said that the training is over."""
    places = {peer: "[{}]:{}".format(*peer.getpeername()[:2]) for peer in peers}
    while places:
        for peer in select.select(list(places), (), (), STEP_SECONDS)[0]:
            place = places.pop(peer)
            try:
                told = peer.recv(len(OVER))
            except ConnectionResetError:
                fail(f"Read error {place}: Connection reset by peer")
            if told != OVER:
                fail(f"Connection closed by peer {place}")


def fail(words: str) -> None:
    write(f"RuntimeError: [gloo/transport/tcp/pair.cc:525] {words}\n".encode())
    os._exit(1)


def main() -> None:
    places = {rank: name for name, ranks in hosts() for rank in ranks}
    peers = met(int(os.environ["RANK"]), places)

    def end(*_: object) -> None:
        for peer in peers:
            peer.send(OVER)
        os._exit(0)

    signal.signal(signal.SIGALRM, end)
    tell_who_i_am()
    wait_for_the_end(peers)
    while True:
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main()
