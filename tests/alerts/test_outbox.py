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
    one = Outbox(deliver, told.append, "event")
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
    assert told == [
        f"{MOST_WAITING} events wait already, so the oldest is dropped; the end tells the number",
        f"2 events dropped, because {MOST_WAITING} waited already",
    ]


async def test_what_takes_too_long_at_the_end_is_cancelled():
    cancelled: list[int] = []

    async def deliver(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(number)

    told: list[str] = []
    async with outbox(deliver, told) as one:
        for number in range(4):
            one.put(number)
        await anyio.sleep(0.01)
        await one.finish(0.01)
    assert cancelled == [0, 3]
    assert told == ["2 events given up for the last one, because the job has ended"]


async def test_the_last_one_has_its_time_after_the_others_had_a_share_of_it():
    delivered: list[int] = []

    async def deliver(number: int) -> None:
        await anyio.sleep(1.0)
        delivered.append(number)

    told: list[str] = []
    async with outbox(deliver, told) as one:
        for number in range(4):
            one.put(number)
        began = anyio.current_time()
        await one.finish(4.0)  # the others have 1.6 s of it: enough for one
        seconds = anyio.current_time() - began
    assert delivered == [0, 3]
    assert told == ["1 event given up for the last one, because the job has ended"]
    assert seconds < 4.0  # nobody waits for more than is done


async def test_an_empty_one_is_finished_at_once():
    async def deliver(_: int) -> None:
        raise AssertionError

    told: list[str] = []
    async with outbox(deliver, told) as one:
        await one.finish(20)
    assert told == []
