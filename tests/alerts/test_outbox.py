"""A queue whose deliveries are slow, endless or too many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from ascend_supervisor.alerts.outbox import MOST_WAITING, Outbox


@asynccontextmanager
async def outbox(
    deliver: Callable[[int], Awaitable[None]], told: list[str]
) -> AsyncIterator[Outbox[int]]:
    one = Outbox(deliver, told.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.keep)
        with anyio.fail_after(30):
            yield one
        tasks.cancel_scope.cancel()


async def test_all_are_delivered_in_order_one_at_a_time():
    delivered: list[int] = []
    running: list[int] = []

    async def deliver(number: int) -> None:
        running.append(number)
        await anyio.sleep(0.001)
        assert running == [number]
        running.remove(number)
        delivered.append(number)

    told: list[str] = []
    async with outbox(deliver, told) as one:
        for number in range(MOST_WAITING):
            one.put(number)
        await one.finish(20)
    assert (delivered, told) == (list(range(MOST_WAITING)), [])


async def test_the_oldest_gives_way_where_too_many_wait():
    gate, delivered = anyio.Event(), []

    async def deliver(number: int) -> None:
        await gate.wait()
        delivered.append(number)

    told: list[str] = []
    async with outbox(deliver, told) as one:
        for number in range(MOST_WAITING + 2):
            one.put(number)
        gate.set()
        await one.finish(20)
    assert delivered == list(range(2, MOST_WAITING + 2))
    assert told == [f"{MOST_WAITING} events wait already, so the oldest was dropped"] * 2


async def test_what_takes_too_long_at_the_end_is_given_up_and_told():
    cancelled: list[int] = []

    async def deliver(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(number)

    told: list[str] = []
    async with outbox(deliver, told) as one:
        for number in range(3):
            one.put(number)
        await anyio.sleep(0.01)
        await one.finish(0.01)
    assert cancelled == [0]
    assert told == ["3 events given up, because the job has ended"]


async def test_an_empty_one_is_finished_at_once():
    async def deliver(_: int) -> None:
        raise AssertionError

    told: list[str] = []
    async with outbox(deliver, told) as one:
        await one.finish(20)
    assert told == []
