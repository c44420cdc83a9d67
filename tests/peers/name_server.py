"""A program: a name server that gives every name the same address.

    name_server.py LISTEN ADDRESS

It answers at the UDP port 53 of LISTEN. Stopped (SIGSTOP), it is one that is dead: what is asked
goes nowhere.
"""

from __future__ import annotations

import socket
import sys

A, IN = b"\0\x01", b"\0\x01"


def answer(query: bytes, address: str) -> bytes:
    """To a query with one question; only one for A has an answer."""
    end = query.index(b"\0", 12) + 5
    question = query[12:end]
    is_a = question[-4:-2] == A
    head = query[:2] + b"\x81\x80\0\x01" + (b"\0\x01" if is_a else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c" + A + IN + b"\0\0\0\x01" + b"\0\x04" + socket.inet_aton(address)
    return head + question + (record if is_a else b"")


if __name__ == "__main__":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], 53))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            query, asker = server.recvfrom(4096)
            server.sendto(answer(query, sys.argv[2]), asker)
