"""The words of a rank that lost its peers, which peer they name, and which port was taken; pure.

The words are those of gloo, c10d (torch 1.11 to 2.13), torch_npu, NCCL, HCCL and MindSpore.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import LINE_CHARACTERS

ALL_RANKS = "the first error among the ranks of all servers"


class Suspect(Struct, frozen=True):
    """``ranks`` are numbers, as they were printed; a device is one of the server ``host``.

    Nothing given: all servers.
    """

    ranks: str = ""
    host: str = ""
    device: str = ""
    is_here: bool = False

    @property
    def rank(self) -> int | None:
        """The first of ``ranks``."""
        first = self.ranks.partition(",")[0]
        return int(first) if first else None

    def __str__(self) -> str:
        if self.device:
            return f"device {self.device} of server {self.host}"
        where = "this server" if self.is_here else self.host
        if self.ranks:
            return f"rank {self.ranks}, on {where}" if where else f"rank {self.ranks}"
        return f"the ranks on {where}" if where else ALL_RANKS

    @property
    def zh(self) -> str:
        """The same in Chinese, to follow the verb as it is: with a space before a Latin letter."""
        if self.device:
            return f"节点 {self.host} 的设备 {self.device}"
        where = f"节点 {self.host} " if self.host else ""
        where = "本节点" if self.is_here else where
        if self.ranks:
            return f"{where}上的 rank {self.ranks}" if where else f" rank {self.ranks}"
        return f"{where}上的 rank" if where else "所有节点上最先报错的 rank"


LOST = "lost-peer"
_WAITED = "waited-for-peer"
NO_STORE = "no-rendezvous"
_WHAT = {
    LOST: "it lost the connection to another rank",
    _WAITED: "it waited in vain for another rank",
    NO_STORE: "it did not reach the rendezvous, which rank 0 serves",
}
"""By id in the table of causes."""


RANK_0 = Suspect("0")
"""Who serves the rendezvous, where no peer is named: it may be well, and its address wrong."""


class Loss(Struct, frozen=True):
    """What a rank has lost, by its id in the table of causes, and where to look for the cause."""

    id: str
    where: Suspect

    @property
    def what(self) -> str:
        """Half a sentence."""
        return _WHAT[self.id]


_SPEAKS = (
    r"(?:gloo/transport/|\bProcessGroup"
    r"|(?<![\w./-])(?:c10d|NCCL|HCCL|SocketImpl|socketProgress|TCPStore|\w*\.?Dist\w+Error)(?![\w./-]))"
)
"""What connects ranks: any other connection may be one to a storage service."""
_BY_PEER = r"connection (?:was )?(?:closed|reset) by (?:the )?(?:remote )?peer"

_WORDS = (
    (LOST, rf"{_SPEAKS}.*{_BY_PEER}"),
    (LOST, r"gloo/transport/[^]]*\] .*(?:broken pipe|socket closed|connection refused|no error)"),
    (LOST, r"caused pair closure|connectFullMesh failed"),
    (LOST, r"NCCL communicator was aborted|ncclRemoteError|remote process (?:has )?exit"),
    (LOST, r"HCCL OP RETRY FAILED"),
    (LOST, r"^\[(?:ERROR|CRITICAL)\] (?:DISTRIBUTED|PS|RPC)\(.*(?:closed|disconnect|refused)"),
    (NO_STORE, r"failed on SocketImpl\(|failed to recv, got 0 bytes"),
    (NO_STORE, r"client socket has timed out|TCPStore.*Broken pipe"),
    (NO_STORE, r"wait timeout after \d+ ?ms, keys|RuntimeError: Socket Timeout"),
    (NO_STORE, r"Timed out after \d+ seconds waiting for clients"),
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
_TOLD = tuple((kind, pattern(words, re.IGNORECASE)) for kind, words in _WORDS)

_HOST = r"(?P<host>[0-9A-Za-z.:_-]{1,64})"
_RANK = "(?P<ranks>[0-9]{1,7})(?![0-9])"
"""A longer number is none: HCCL prints 4294967295 for a rank that it does not know."""
_DEVICE = "(?P<device>[0-9]{1,7})(?![0-9])"
_PEERS = tuple(
    pattern(words)
    for words in (
        rf"\| *{_HOST}\({_RANK}\) *\|.*time ?out",
        rf"dst_rank\[{_RANK}\].*remote_ip_addr\[{_HOST}\]",
        rf"dstRank \(server {_HOST}, device ID {_DEVICE}\)",
        rf"Peer information: server {_HOST}, device ID {_DEVICE}",
        rf"[Rr]emote[ _][Rr]ank(?:id)?:? ?\[?{_RANK}",
        rf"Waiting peer rank: {_RANK}",
        rf"send/recv from rank {_RANK}",
        r"Ranks? (?P<ranks>[0-9]{1,7}(?:, [0-9]{1,7}){0,20}) failed to pass monitoredBarrier",
        rf"peer \[{_HOST}\]",
        rf"error \[{_HOST}\]:[0-9]+: ",
    )
)
_LOOPBACK = pattern(r"(?:::ffff:)?127\.[0-9.]+|::1|localhost")

_OWN_ADDRESS = pattern(
    r"connect \[(?:127\.|::1\]|::ffff:127\.).{0,60}: Connection refused"
    r"|Connection refused, remote=\[(?:127\.|::1\]|::ffff:127\.)",
    re.IGNORECASE,
)
"""gloo: the other rank may be well, and its host name leads every server to itself."""
_FROM_SOCKET = pattern(rf"\w*Error: (?:{_BY_PEER}|Broken pipe)", re.IGNORECASE)
_PEERS_CODE = pattern(r"/torch(?:_npu)?/distributed/|/mindspore/")
_FIRED = pattern(r"Watchdog caught collective operation timeout", re.IGNORECASE)


def loss(lines: Sequence[str], place: str = "") -> Loss | None:
    """What these lines say of a lost peer, or None; the first words count.

    An exception that was raised in the file ``place``, of what connects ranks, may have few words.
    """
    if lines and _PEERS_CODE.search(place) and _FROM_SOCKET.match(lines[0]):
        return Loss(LOST, peer(lines) or Suspect())
    for line in lines:
        if _OWN_ADDRESS.search(line):
            continue
        kind = next((kind for kind, words in _TOLD if words.search(line)), None)
        if kind is not None:
            unnamed = RANK_0 if kind is NO_STORE else Suspect()
            return Loss(kind, peer(lines) or unnamed)
    return None


def names_another(lines: Sequence[str]) -> bool:
    """Whether these lines name a rank that is not the only one of a job of one rank."""
    named = peer(line[:LINE_CHARACTERS] for line in lines)
    return named is not None and (bool(named.device) or bool(named.rank))


def watchdog_fired(lines: Iterable[str]) -> bool:
    """Whether a watchdog of NCCL or HCCL has ended a collective that took too long."""
    return any(map(_FIRED.search, lines))


def peer(lines: Iterable[str]) -> Suspect | None:
    """The peer that these lines name, such as rank 5, or the ranks on 10.0.0.7."""
    lines = tuple(lines)
    for one in _PEERS:
        found = next(filter(None, map(one.search, lines)), None)
        if found is not None:
            named = found.groupdict(default="")
            ranks, host, device = (named.get(key, "") for key in ("ranks", "host", "device"))
            suspect = Suspect(ranks, host, device)
            is_here = not suspect.device and _LOOPBACK.fullmatch(suspect.host) is not None
            return replace(suspect, is_here=is_here)
    return None


_TAKEN = pattern(r"EADDRINUSE|address (?:is )?already in use|errno:? 98\b", re.IGNORECASE)
_OF_C10D = pattern(r"server socket has failed to (?:bind|listen)", re.IGNORECASE)
_PORT = pattern(r"(?:\bport[:= ]+|[\]\w.]:)(\d{3,5})\b", re.IGNORECASE)


def taken_port(lines: Iterable[str], usual: int | None) -> int | None:
    """The rendezvous port that was taken: the ``usual`` one, or one that torch names.

    A rank may listen elsewhere for purposes of its own, which are none of ours.
    """
    for line in lines:
        if _TAKEN.search(line):
            named = [int(digits) for digits in _PORT.findall(line)]
            if usual in named:
                return usual
            if named and _OF_C10D.search(line):
                return named[-1]
    return None
