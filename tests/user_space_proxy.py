"""A service as kube-proxy once made it: connections to its address are passed on to a backend.

    user_space_proxy.py ADDRESS BACKEND PORT

It says "ready" when it listens. Where the backend refuses a connection, the client's is reset.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from contextlib import suppress

RESET = struct.pack("ii", 1, 0)


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(client: socket.socket, backend: tuple[str, int]) -> None:
    try:
        server = socket.create_connection(backend)
    except OSError:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        return
    back = threading.Thread(target=pass_on, args=(server, client), daemon=True)
    back.start()
    pass_on(client, server)
    back.join()
    server.close()
    client.close()


def main(address: str, backend: str, port: int) -> None:
    listener = socket.create_server((address, port))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, (backend, port)), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
