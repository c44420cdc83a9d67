"""Whether a TCP port of this machine is free."""

from __future__ import annotations

import errno
import socket


def can_bind(port: int) -> bool:
    """Whether a program that sets SO_REUSEADDR could listen there, as those of torch do.

    It could not while one that did not set it has left connections in TIME_WAIT, or still runs.
    """
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True
