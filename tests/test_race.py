"""Races: who wins, what becomes of the others, and how errors come out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

import anyio
import pytest

from ascend_supervisor.plumbing.race import every, first

DEADLINE = 10.0


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
    with anyio.fail_after(DEADLINE):
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
    with anyio.fail_after(DEADLINE):
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


async def test_every_of_nothing_is_done_at_once():
    await within_deadline(every)


async def test_a_result_outweighs_an_error_that_cancelling_the_others_brings_to_light():
    async def complains() -> NoReturn:
        try:
            await anyio.sleep_forever()
        except BaseException as cancelled:
            raise OSError("while closing") from cancelled
        raise AssertionError

    assert await within_deadline(lambda: first(complains, Contender("won"))) == "won"
