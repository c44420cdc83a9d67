"""What must be the same on all servers and is not: versions, and the files of the command; pure.

Each server puts its facts once, below their digest, and counts: where all have the same digest,
that is all. Only where they differ are the facts of all read, and of many servers by the first one
and those that most others contradict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256

import msgspec
from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.etcd.values import Put
from ascend_supervisor.phrases import listed
from ascend_supervisor.untrusted_text import printable

FACTS = "facts"
"""The first word of the keys; the agreement reads none of them."""
Facts = Mapping[str, str]
"""By name, such as CANN: a version or a digest."""
MOST_NAMED = 3
MOST_CHARACTERS = 80


class FactsTold(Struct, frozen=True):
    """The facts of a server, and what names it to people."""

    host: str
    facts: dict[str, str]


def digest_of(facts: Facts) -> str:
    return sha256(msgspec.json.encode(sorted(facts.items()))).hexdigest()[:16]


def to_put(facts: Facts, host: str, incarnation: str, job: str) -> Put:
    """For the server ``incarnation``, and as long as the other records of the ``job`` (its id)."""
    told = FactsTold(host, dict(facts))
    key = f"{prefixes(facts, job)[1]}{incarnation}"
    return Put(key, msgspec.json.encode(told), records.lease_of(job))


def prefixes(facts: Facts, job: str) -> tuple[str, str]:
    """Of all keys of the job, and of those that say the same."""
    every = f"{FACTS}/{records.lease_of(job)}/"
    return every, f"{every}{digest_of(facts)}/"


def told_by(values: Mapping[str, bytes], alive: Mapping[int, str]) -> dict[int, FactsTold]:
    """By index, from keys and values; only of servers that live (``alive`` by index)."""
    indices = {incarnation: index for index, incarnation in alive.items()}
    found: dict[int, FactsTold] = {}
    for key, value in values.items():
        index = indices.get(key.rpartition("/")[2])
        if index is not None:
            with suppress(msgspec.MsgspecError):
                found[index] = msgspec.json.decode(value, type=FactsTold)
    return found


def differences(told: Mapping[int, FactsTold]) -> tuple[str, ...]:
    """A clause for each fact that is not the same on all, which names the servers that differ."""
    names = dict.fromkeys(name for one in told.values() for name in one.facts)
    return tuple(clause for name in names if (clause := _difference(name, told)))


def _difference(name: str, told: Mapping[int, FactsTold]) -> str:
    values = {index: one.facts.get(name, "none") for index, one in sorted(told.items())}
    counted = Counter(values.values()).most_common()
    if len(counted) < 2:  # noqa: PLR2004
        return ""
    (usual, many), (_, second) = counted[:2]
    if many == second:  # nobody can say who is right
        usual = ""
    odd = [
        f"server {index} ({_shown(told[index].host)}) has {_shown(value)}"
        for index, value in values.items()
        if value != usual
    ]
    others = f", {_the_others(many)} {_shown(usual)}" if usual else ""
    return f"{name} differs: {listed(odd, MOST_NAMED)}{others}"


def _the_others(many: int) -> str:
    return f"the {many} others have" if many > 1 else "the other one has"


def _shown(text: str) -> str:
    return printable(text, MOST_CHARACTERS)
