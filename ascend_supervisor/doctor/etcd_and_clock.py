"""The etcd of --peers: whether it answers, how soon, and what the time is there.

All servers of a job have the same etcd, so each compares its clock with that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import anyio
from msgspec import Struct

from ascend_supervisor.doctor.check import PartInJob, ThisServer, fit, warning
from ascend_supervisor.errors import Refusal
from ascend_supervisor.events.server import Result
from ascend_supervisor.untrusted_text import printable

ETCD, CLOCK = "etcd", "clock"
MOST_SECONDS = 8.0
READS = 2
"""The first one makes the connection."""
SLOW_SHARE = 0.05
"""Of the TTL; a request gets a quarter of it."""
MOST_DIFFERENCE = 5.0
"""Seconds."""


class _Heard(Struct, frozen=True):
    """``seconds`` is what the quicker answer took; ``ahead`` is etcd's clock against ours."""

    seconds: float = 0.0
    ahead: float | None = None
    trouble: str = ""


async def etcd_and_clock(server: ThisServer, _: object) -> Iterable[Result]:
    """Nothing without --peers, or where the job brings its etcd: a start tells all of that."""
    etcd = server.part.etcd
    if etcd is None or not etcd.endpoints:
        return ()
    heard = _Heard(trouble=f"it has not answered within {MOST_SECONDS:g} s")
    with anyio.move_on_after(MOST_SECONDS):
        heard = await _asked(server.part)
    where = ", ".join(map(str, etcd.endpoints))
    return tuple(_rows(heard, where, etcd.ttl))


async def _asked(part: PartInJob) -> _Heard:
    # Few jobs have an etcd, and each start makes these checks.
    from ascend_supervisor.coordination.peers.meeting import answers_of  # noqa: PLC0415

    assert part.etcd is not None  # noqa: S101  (see above)
    try:
        return _Heard(*await answers_of(part.etcd, part.job, READS))
    except Refusal as error:
        return _Heard(trouble=printable(str(error)))


def _rows(heard: _Heard, where: str, ttl: float) -> Iterator[Result]:
    if heard.trouble:
        yield warning(
            ETCD,
            f"no answer of {where}: {heard.trouble}",
            f"an answer within {ttl / 4:g} s",
            "see that it runs, and the network between",
        )
        return
    answer = f"an answer of {where} within {heard.seconds * 1000:.0f} ms"
    if heard.seconds > ttl * SLOW_SHARE:
        yield warning(
            ETCD,
            answer,
            f"at most {ttl * SLOW_SHARE * 1000:.0f} ms: after {ttl:g} s (--peers-ttl) without one "
            "this server is lost",
            "see its disk and the network between, or allow more with --peers-ttl",
        )
    else:
        yield fit(ETCD, answer)
    if heard.ahead is not None:
        yield _clock(heard.ahead, where)


def _clock(ahead: float, where: str) -> Result:
    """Dates in HTTP have whole seconds."""
    if abs(ahead) <= MOST_DIFFERENCE:
        return fit(CLOCK, f"the time of {where}, give or take {max(1, round(abs(ahead)))} s")
    side = "behind" if ahead > 0 else "ahead of"
    return warning(
        CLOCK,
        f"the clock here {abs(ahead):.0f} s {side} that of {where}",
        f"at most {MOST_DIFFERENCE:g} s: times in logs, and certificates, depend on it",
        "set the clock that is wrong (chronyc tracking, timedatectl)",
    )
