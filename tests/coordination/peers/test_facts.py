"""Which server differs from the others, in one clause for each fact."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.agreement.records import lease_of
from ascend_supervisor.coordination.peers.facts import (
    FactsTold,
    differences,
    digest_of,
    prefixes,
    to_put,
    told_by,
)

OLD, NEW = "8.0.RC2", "8.0.RC3"


def servers(*cann: str, **more: str) -> dict[int, FactsTold]:
    facts = ({"CANN": one, **more} if one else dict(more) for one in cann)
    return {index: FactsTold(f"host {'abcdefgh'[index]}", one) for index, one in enumerate(facts)}


@pytest.mark.parametrize(
    ("told", "clauses"),
    [
        (servers(NEW, NEW, NEW, Python="3.11.7"), ()),
        (
            servers(NEW, NEW, OLD, NEW),
            ("CANN differs: server 2 (host c) has 8.0.RC2, the 3 others have 8.0.RC3",),
        ),
        (
            servers(NEW, "", NEW),
            ("CANN differs: server 1 (host b) has none, the 2 others have 8.0.RC3",),
        ),
        (
            servers(NEW, OLD),
            ("CANN differs: server 0 (host a) has 8.0.RC3, server 1 (host b) has 8.0.RC2",),
        ),
        (
            servers(NEW, OLD, "8.0.RC1", "7.0", NEW, "7.1", "7.2", NEW),
            (
                (
                    "CANN differs: server 1 (host b) has 8.0.RC2, server 2 (host c) has 8.0.RC1, "
                    "server 3 (host d) has 7.0 and 2 more, the 3 others have 8.0.RC3"
                ),
            ),
        ),
    ],
)
def test_the_servers_that_most_others_contradict_are_named(told, clauses):
    assert differences(told) == clauses


def test_each_fact_that_differs_has_a_clause():
    told = servers(NEW, NEW, NEW)
    told[1] = FactsTold("host b", {"CANN": OLD, "Python": "3.10.1"})
    assert [clause.split()[0] for clause in differences(told)] == ["CANN", "Python"]


def test_equal_facts_have_the_same_digest_whatever_their_order():
    facts = {"CANN": NEW, "Python": "3.11.7"}
    assert digest_of(facts) == digest_of(dict(reversed(facts.items())))
    assert digest_of(facts) != digest_of({**facts, "CANN": OLD})


def test_facts_live_as_long_as_the_job_and_are_counted_by_their_digest():
    put = to_put({"CANN": NEW}, "host a", "a1", "job id")
    every, same = prefixes({"CANN": NEW}, "job id")
    assert put.key == f"{same}a1"
    assert put.key.startswith(every)
    assert put.lease == lease_of("job id")
    assert prefixes({"CANN": NEW}, "another id")[0] != every


def test_what_servers_that_are_gone_have_told_does_not_count_nor_what_is_damaged():
    gone = to_put({"CANN": OLD}, "host a", "a1", "job")
    lives = to_put({"CANN": NEW}, "host b", "b2", "job")
    values = {gone.key: gone.value, lives.key: lives.value, "facts/x/c3": b"\xff"}
    assert told_by(values, {0: "b2", 1: "c3"}) == {0: FactsTold("host b", {"CANN": NEW})}
