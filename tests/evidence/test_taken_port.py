"""The port at which a failed rank could not listen, told by its words."""

from __future__ import annotations

import pytest

from ascend_supervisor.evidence.communication import taken_port

TORCH_2 = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
    "network address. port: 6000, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
    "already in use"
)
TORCH_1 = (
    "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:6000 (errno: 98 - "
    "Address already in use)."
)


@pytest.mark.parametrize(
    ("line", "usual", "port"),
    [
        (TORCH_2, None, 6000),
        (TORCH_1, 29500, 6000),
        (TORCH_1, 6000, 6000),
        ("OSError: [Errno 98] Address already in use: 127.0.0.1:29500", 29500, 29500),
        ("OSError: [Errno 98] Address already in use: 127.0.0.1:8080", 29500, None),
        ("OSError: [Errno 98] Address already in use", 29500, None),
        ("[E] bind failed, port=8118, EADDRINUSE", 8118, 8118),
        ("connected to [::]:29500", 29500, None),
        ("", None, None),
    ],
)
def test_only_the_rendezvous_port_counts(line: str, usual: int | None, port: int | None):
    assert taken_port(["a line", line], usual) == port
