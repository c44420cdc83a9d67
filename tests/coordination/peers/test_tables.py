"""Which rank table a server remembers of those that were written one after another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ascend_supervisor.cluster.rank_table import Device, Entry, Format, FoundTable, RankTable
from ascend_supervisor.coordination.agreement.situation import JobRules, Self
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.tables import MOST_TABLES, WrittenTable
from ascend_supervisor.life import Placed
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from tests.etcd.asking import at

OURS = Entry((Device(0, 0, None),), server_id="here")


def table_with(*others: str) -> FoundTable:
    """A table of this server and the ``others``."""
    entries = (OURS, *(Entry((), server_id=other) for other in others))
    told = RankTable(Format.TEMPLATE_1, entries, 1, 1, b"", essence=" ".join(others))
    return FoundTable(Path("/t"), told, "")


@asynccontextmanager
async def reading(*found: FoundTable) -> AsyncIterator[tuple[WrittenTable, Session]]:
    """The tables are found one after another, and the last one for ever."""
    left = list(found)

    async def placed() -> Placed:
        return Placed(left.pop(0) if len(left) > 1 else left[0], 0, OURS)

    rules = JobRules(Self("mine", "here", 0), 1, RestartBudget(limit=0, backoff=Backoff(0.0, 0.0)))
    async with at("http://127.0.0.1:1") as client:
        store = Store(client, "job", "mine", 2)
        session = Session(store, rules, lambda _: None, lambda _: None, lambda _: None)
        yield WrittenTable(placed), session


async def test_the_hosts_are_those_of_the_table_that_was_read_last_also_if_it_came_back():
    one, other = table_with("one"), table_with("other")
    async with reading(one, other, one) as (tables, session):
        for expected in ("one", "other", "one"):
            await tables.get_ready(session)
            assert tables.labels == ("here", expected)


async def test_the_hosts_are_those_of_the_table_on_which_all_have_agreed():
    one, other = table_with("one"), table_with("other")
    async with reading(one, other) as (tables, session):
        await tables.get_ready(session)
        await tables.get_ready(session)
        session.ready_with = one.essence
        assert tables.agreed(session, ()).found == one
        assert tables.labels == ("here", "one")
        await tables.get_ready(session)
        assert tables.labels == ("here", "one")


async def test_tables_that_change_without_end_are_forgotten_but_not_the_one_the_others_know():
    many = [table_with(str(number)) for number in range(50)]
    async with reading(*many) as (tables, session):
        await tables.get_ready(session)
        session.ready_with = many[0].essence
        for _ in many[1:]:
            await tables.get_ready(session)
        assert len(tables._places) <= MOST_TABLES + 1
        assert tables.agreed(session, ()).found == many[0]
