"""Wait for the first of several things, or for all of them; no exception is lost.

Only one is raised, without the group around it. Other exceptions go to the event loop's exception
handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

T = TypeVar("T")


class _Returned(Struct, Generic[T], frozen=True):
    result: T


async def first(*contenders: Callable[[], Awaitable[T]]) -> T:
    """The result of the contender that ends first, or its exception, without a group.

    The others are cancelled, and have ended when this returns. Their results are dropped.
    """
    ends: list[_Returned[T] | Exception] = []
    try:
        async with anyio.create_task_group() as tasks:

            async def run(contender: Callable[[], Awaitable[T]]) -> None:
                try:
                    ends.append(_Returned(await contender()))
                except Exception as error:  # noqa: BLE001  (raised below, without a group around it)
                    ends.append(error)
                tasks.cancel_scope.cancel()

            for contender in contenders:
                tasks.start_soon(run, contender)
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end.result
    finally:
        _tell(end for end in ends if isinstance(end, Exception))


async def every(*tasks_to_do: Callable[[], Awaitable[object]]) -> None:
    """Wait for all; the first exception cancels the others and is raised without a group."""
    errors: list[Exception] = []
    try:
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
            raise errors.pop(0)
    finally:
        _tell(errors)


@asynccontextmanager
async def beside(
    *tasks_to_do: Callable[[], Coroutine[object, object, object]],
) -> AsyncIterator[TaskGroup]:
    """Run these tasks, and those that are given to the group, while this is entered.

    An exception of one of them, or else what is raised inside, is raised without a group.
    """
    error = None
    try:
        async with anyio.create_task_group() as tasks:
            for task in tasks_to_do:
                tasks.start_soon(task)
            try:
                yield tasks
            except Exception as raised:  # noqa: BLE001  (raised below, without a group around it)
                error = raised
            finally:
                tasks.cancel_scope.cancel()
    except Exception as group:  # noqa: BLE001
        raise innermost(group) from None
    if error is not None:
        raise error


def _tell(errors: Iterable[Exception]) -> None:
    loop = asyncio.get_running_loop()
    for error in errors:
        loop.call_exception_handler(
            {"message": "an exception that came too late to be raised", "exception": error}
        )


def innermost(error: Exception) -> Exception:
    """The first exception in ``error``, in groups of groups too; ``error`` if it is no group."""
    while inside := getattr(error, "exceptions", ()):
        error = inside[0]
    return error
