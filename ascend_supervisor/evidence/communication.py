"""The words of a rank that lost its peers, and which peer they name; pure.

The words are those of gloo, c10d (torch 1.11 to 2.13), torch_npu, NCCL, HCCL and MindSpore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ascend_supervisor.evidence.speakers import LINE_CHARACTERS

ALL_RANKS = "the first error among the ranks of all servers"


class Loss(Struct, frozen=True):
    """What a rank has lost (half a sentence), and where to look for the cause."""

    what: str
    where: str


_LOST = "it lost the connection to another rank"
_WAITED = "it waited in vain for another rank"
_NO_STORE = "it did not reach the rendezvous, which rank 0 serves"

_SPEAKS = (
    r"(?:gloo/transport/|\bProcessGroup"
    r"|(?<![\w./-])(?:c10d|NCCL|HCCL|SocketImpl|socketProgress|TCPStore|\w*\.?Dist\w+Error)(?![\w./-]))"
)
"""What connects ranks: any other connection may be one to a storage service."""
_BY_PEER = r"connection (?:was )?(?:closed|reset) by (?:the )?(?:remote )?peer"

_WORDS = (
    (_LOST, rf"{_SPEAKS}.*{_BY_PEER}"),
    (_LOST, r"gloo/transport/[^]]*\] .*(?:broken pipe|socket closed|connection refused|no error)"),
    (_LOST, r"caused pair closure|connectFullMesh failed"),
    (_LOST, r"NCCL communicator was aborted|ncclRemoteError|remote process (?:has )?exit"),
    (_LOST, r"HCCL OP RETRY FAILED"),
    (_LOST, r"^\[(?:ERROR|CRITICAL)\] (?:DISTRIBUTED|PS|RPC)\(.*(?:closed|disconnect|refused)"),
    (_NO_STORE, r"failed on SocketImpl\(|failed to recv, got 0 bytes"),
    (_NO_STORE, r"client socket has timed out|TCPStore.*Broken pipe"),
    (_NO_STORE, r"wait timeout after \d+ ?ms, keys|RuntimeError: Socket Timeout"),
    (_NO_STORE, r"Timed out after \d+ seconds waiting for clients"),
    (_WAITED, r"caught collective operation timeout|notify wait time ?out"),
    (_WAITED, r"the Notify register (?:times out|waits)|Getting socket times out"),
    (_WAITED, r"wait socket establish timeout"),
    (_WAITED, r"timed out (?:after )?waiting \d+ ?ms for (?:recv|send)"),
    (_WAITED, r"gloo/transport/[^]]*\] .*time(?:d )?out"),
    (_WAITED, r"failed to pass monitoredBarrier|errors? while waiting for send/recv from rank"),
    (_WAITED, r"hccl fftsplus task timeout|stuck notify num"),
    (_WAITED, r"HCCL function error.*error code is (?:9|1[1-4]|21)\b"),
    (_WAITED, r"^\[(?:ERROR|CRITICAL)\] (?:DISTRIBUTED|PS|RPC)\(.*timed? ?out"),
)
"""Error codes of HCCL (hccl_types.h): 9 a timeout, 11 to 14 TCP and RoCE, 21 the remote end."""
_TOLD = tuple((what, re.compile(words, re.IGNORECASE)) for what, words in _WORDS)

_HOST = r"([0-9A-Za-z.:_-]{1,64})"
_PEERS = tuple(
    (re.compile(pattern), place)
    for pattern, place in (
        (rf"\| *{_HOST}\(([0-9]+)\) *\|.*time ?out", "rank {1}, on {0}"),
        (rf"dst_rank\[([0-9]+)\].*remote_ip_addr\[{_HOST}\]", "rank {0}, on {1}"),
        (rf"dstRank \(server {_HOST}, device ID ([0-9]+)\)", "device {1} of server {0}"),
        (rf"Peer information: server {_HOST}, device ID ([0-9]+)", "device {1} of server {0}"),
        (r"[Rr]emote[ _][Rr]ank(?:id)?:? ?\[?([0-9]+)", "rank {0}"),
        (r"Waiting peer rank: ([0-9]+)", "rank {0}"),
        (r"send/recv from rank ([0-9]+)", "rank {0}"),
        (r"Ranks? ([0-9]+(?:, [0-9]+){0,20}) failed to pass monitoredBarrier", "rank {0}"),
        (rf"peer \[{_HOST}\]", "the ranks on {0}"),
        (rf"error \[{_HOST}\]:[0-9]+: ", "the ranks on {0}"),
    )
)
_ANOTHER = re.compile(r"rank [1-9]|device ")
_LOOPBACK = re.compile(r"on (?:(?:::ffff:)?127\.[0-9.]+|::1|localhost)$")


_FROM_SOCKET = re.compile(rf"\w*Error: (?:{_BY_PEER}|Broken pipe)", re.IGNORECASE)
_PEERS_CODE = re.compile(r"/torch(?:_npu)?/distributed/|/mindspore/")
_FIRED = re.compile(r"Watchdog caught collective operation timeout", re.IGNORECASE)


def loss(lines: Sequence[str], place: str = "") -> Loss | None:
    """What these lines say of a lost peer, or None; the first words count.

    An exception that was raised in the file ``place``, of what connects ranks, may have few words.
    """
    if lines and _PEERS_CODE.search(place) and _FROM_SOCKET.match(lines[0]):
        return Loss(_LOST, peer(lines) or ALL_RANKS)
    for line in lines:
        what = next((what for what, words in _TOLD if words.search(line)), None)
        if what is not None:
            unnamed = "rank 0" if what is _NO_STORE else ALL_RANKS
            return Loss(what, peer(lines) or unnamed)
    return None


def names_another(lines: Sequence[str]) -> bool:
    """Whether these lines name a rank that is not the only one of a job of one rank."""
    return _ANOTHER.match(peer(line[:LINE_CHARACTERS] for line in lines) or "") is not None


def watchdog_fired(lines: Iterable[str]) -> bool:
    """Whether a watchdog of NCCL or HCCL has ended a collective that took too long."""
    return any(map(_FIRED.search, lines))


def peer(lines: Iterable[str]) -> str | None:
    """The peer that these lines name, such as ``rank 5`` or ``the ranks on 10.0.0.7``."""
    lines = tuple(lines)
    for pattern, place in _PEERS:
        found = next(filter(None, map(pattern.search, lines)), None)
        if found is not None:
            return _LOOPBACK.sub("on this server", place.format(*found.groups()))
    return None
