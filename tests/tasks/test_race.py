"""Races: who wins, what becomes of the others, and how errors come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn

import anyio
import pytest

from ascend_supervisor.tasks.race import beside, every, first
from tests.running import DEADLINE_SECONDS


class Contender:
    """Waits for ever unless it is given something to return or raise; notes that it was ended."""

    def __init__(self, end: object = None) -> None:
        self.end = end
        self.started = self.ended = False

    async def __call__(self) -> object:
        self.started = True
        try:
            if isinstance(self.end, Exception):
                raise self.end
            if self.end is None:
                await anyio.sleep_forever()
            return self.end
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()  # an end may take its time
            self.ended = True


async def within_deadline(wait: Callable[[], Awaitable[object]]) -> object:
    with anyio.fail_after(DEADLINE_SECONDS):
        return await wait()


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_the_first_result_wins_wherever_it_stands_and_the_others_have_ended(position):
    contenders = [Contender(), Contender()]
    contenders.insert(position, Contender("won"))
    assert await within_deadline(lambda: first(*contenders)) == "won"
    assert [c.ended for c in contenders] == [c.started for c in contenders]
    assert any(c.started for c in contenders)


@pytest.mark.parametrize("race", [first, every])
async def test_an_exception_comes_out_bare_after_the_others_have_ended(race):
    waiting, failing = Contender(), Contender(OSError("no room"))
    with pytest.raises(OSError, match="no room"):
        await within_deadline(lambda: race(waiting, failing))
    assert (waiting.started, waiting.ended) == (True, True)


@pytest.mark.parametrize("race", [first, every])
async def test_who_is_cancelled_ends_all_contenders(race):
    contenders = [Contender(), Contender()]
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(race, *contenders)
            while not all(contender.started for contender in contenders):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert all(contender.ended for contender in contenders)


async def test_every_waits_for_the_last():
    gates = [anyio.Event() for _ in range(3)]
    done: list[int] = []

    async def pass_gate(index: int) -> None:
        await gates[index].wait()
        done.append(index)
        if index:
            gates[index - 1].set()

    gates[2].set()
    await within_deadline(
        lambda: every(*(lambda index=index: pass_gate(index) for index in range(3)))
    )
    assert done == [2, 1, 0]


async def test_what_is_raised_beside_tasks_comes_out_bare_after_they_have_ended():
    contender = Contender()

    async def fail() -> None:
        async with beside(contender):
            while not contender.started:
                await anyio.lowlevel.checkpoint()
            raise LookupError

    with pytest.raises(LookupError):
        await within_deadline(fail)
    assert contender.ended


async def test_an_exception_of_a_task_beside_comes_out_bare_and_ends_what_is_inside():
    async def wait() -> None:
        async with beside(Contender()) as tasks:
            tasks.start_soon(Contender(LookupError()))
            await anyio.sleep_forever()

    with pytest.raises(LookupError):
        await within_deadline(wait)


async def test_every_of_nothing_is_done_at_once():
    await within_deadline(every)


@pytest.fixture
async def told() -> AsyncIterator[list[BaseException]]:
    """The exceptions that came to the event loop's handler, in order."""
    heard: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
    yield heard
    loop.set_exception_handler(None)


def complaining(error: Exception) -> Callable[[], Awaitable[NoReturn]]:
    """A contender that fails only when it is cancelled."""

    async def complain() -> NoReturn:
        try:
            await anyio.sleep_forever()
        except BaseException as cancelled:
            raise error from cancelled
        raise AssertionError

    return complain


async def test_a_result_outweighs_an_error_that_cancelling_the_others_brings_to_light(told):
    error = OSError("while closing")
    assert await within_deadline(lambda: first(complaining(error), Contender("won"))) == "won"
    assert told == [error]


@pytest.mark.parametrize("position", [0, 1])
async def test_who_ends_first_decides_whether_a_result_or_an_exception_comes_out(told, position):
    """Both have ended before either can be cancelled."""
    error = OSError("no room")
    contenders = [Contender("won")]
    contenders.insert(position, Contender(error))
    if position == 0:
        with pytest.raises(OSError, match="no room"):
            await within_deadline(lambda: first(*contenders))
        assert told == []
    else:
        assert await within_deadline(lambda: first(*contenders)) == "won"
        assert told == [error]


@pytest.mark.parametrize("race", [first, every])
async def test_of_several_exceptions_one_comes_out_and_the_others_are_told(told, race):
    errors = [OSError("one"), OSError("two"), OSError("three")]
    with pytest.raises(OSError, match="one"):
        await within_deadline(lambda: race(*map(Contender, errors[:2]), complaining(errors[2])))
    assert set(told) == set(errors[1:])


@pytest.mark.parametrize("race", [first, every])
async def test_who_is_cancelled_tells_what_its_contenders_have_raised(told, race):
    error = OSError("while closing")
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            waiting = Contender()
            tasks.start_soon(race, complaining(error), waiting)
            while not waiting.started:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert told == [error]
