"""Whatever anybody has to say comes out as an event."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import warnings
from collections.abc import AsyncIterator

import anyio
import pytest

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import Defect, Diagnostic
from ascend_supervisor.reporters.python_warnings import report_diagnostics
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.race import first


@pytest.fixture
async def events() -> AsyncIterator[list[Event]]:
    heard: list[Event] = []
    loop = asyncio.get_running_loop()
    usual = (warnings.showwarning, threading.excepthook, sys.unraisablehook)
    handlers, level = logging.root.handlers[:], logging.root.level
    report_diagnostics(heard.append, loop)
    yield heard
    warnings.showwarning, threading.excepthook, sys.unraisablehook = usual
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    loop.set_exception_handler(None)


async def only(events: list[Event]) -> Event:
    with anyio.fail_after(20):
        while not events:
            await anyio.sleep(0.01)
    (event,) = events
    return event


async def test_a_warning(events):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old hat", DeprecationWarning, "file.py", 3)
    event = await only(events)
    assert event == Diagnostic("warnings", "file.py:3: DeprecationWarning: old hat", None)


@pytest.mark.parametrize("refusal", [Unavailable("no such device"), NoThread()])
async def test_a_refusal_that_came_too_late_is_told_and_is_no_defect(events, refusal):
    async def refuse() -> None:
        raise refusal

    async def come_first() -> str:
        return "won"

    assert await first(come_first, refuse) == "won"
    told = Diagnostic("ascend_supervisor", f"refused too late: {refusal}", None)
    assert await only(events) == told


async def test_a_record_of_a_library_with_its_traceback(events):
    try:
        int("inside")
    except ValueError:
        logging.getLogger("library").exception("it failed")
    event = await only(events)
    assert isinstance(event, Diagnostic)
    assert (event.source, event.message) == ("library", "it failed")
    assert event.traceback is not None
    assert "ValueError: invalid literal" in event.traceback


async def test_a_thread_that_fails(events):
    def fail() -> None:
        raise ValueError("in a thread")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    event = await only(events)
    assert isinstance(event, Defect)
    assert event.message == "ValueError: in a thread"


async def test_a_task_whose_exception_nobody_takes(events):
    async def fail() -> None:
        raise ValueError("in a task")

    task = asyncio.get_running_loop().create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    event = await only(events)
    assert isinstance(event, Defect)
    assert "in a task" in event.traceback


async def test_a_callback_that_fails(events):
    asyncio.get_running_loop().call_soon(lambda: 1 // 0)
    event = await only(events)
    assert isinstance(event, Defect)
    assert event.message.startswith("ZeroDivisionError")


async def test_an_exception_where_none_can_be_raised(events):
    class Bad:
        def __del__(self) -> None:
            raise ValueError("in a finaliser")

    Bad()
    gc.collect()
    event = await only(events)
    assert isinstance(event, Defect)
    assert "in a finaliser" in event.traceback
