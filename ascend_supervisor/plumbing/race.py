"""Wait for the first of several things."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def first(*contenders: Callable[[], Awaitable[T]]) -> T:
    """The result of the contender that ends first, or its exception, bare.

    The others are cancelled, and have ended when this returns.
    """
    results: list[T] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def run(contender: Callable[[], Awaitable[T]]) -> None:
            try:
                results.append(await contender())
            except Exception as error:  # noqa: BLE001  (raised below, without a group around it)
                errors.append(error)
            tasks.cancel_scope.cancel()

        for contender in contenders:
            tasks.start_soon(run, contender)
    if results:
        return results[0]
    raise errors[0]


async def every(*tasks_to_do: Callable[[], Awaitable[object]]) -> None:
    """Wait for all of them together; the first exception ends the others and is raised bare."""
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def run(task: Callable[[], Awaitable[object]]) -> None:
            try:
                await task()
            except Exception as error:  # noqa: BLE001  (raised below, without a group around it)
                errors.append(error)
                tasks.cancel_scope.cancel()

        for task in tasks_to_do:
            tasks.start_soon(run, task)
    if errors:
        raise errors[0]
