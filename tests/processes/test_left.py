"""When to tell of processes that do not end."""

from __future__ import annotations

import asyncio

import anyio

from ascend_supervisor.processes.left import Left, wait_for_left


class Moment(asyncio.SelectorEventLoop):
    """A loop whose time stands still until it is set."""

    moment = 100.0

    def time(self) -> float:
        return self.moment


def told_within(seconds: float, until: float) -> list[Left]:
    """What is told of a process that ends after ``until`` seconds, at looks of 0.1 s each."""
    told: list[Left] = []
    loop = Moment()

    async def wait() -> None:
        with wait_for_left(seconds, told.append) as wait:
            for tenth in range(int(until * 10) + 1):
                loop.moment = 100.0 + tenth / 10
                if wait.is_due():
                    told.append(Left(("7 (state D): python",), wait.told(), seconds))
                if wait.waited > seconds:
                    break

    anyio.run(wait, backend_options={"loop_factory": lambda: loop})
    return told


def test_they_are_told_soon_and_then_seldom_and_at_the_end_the_wait_is_over():
    *told, end = told_within(30, 60)
    assert [round(left.waited) for left in told] == [3, 9, 21]
    assert {left.limit for left in told} == {30}
    assert end.descriptions == ()
    assert round(end.waited) == 30


def test_of_those_that_end_soon_nothing_is_told():
    assert told_within(30, 2) == []
