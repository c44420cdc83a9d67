"""Questions to a file system that may not answer, and to nobody in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import anyio
import pytest

from ascend_supervisor.files.watch import FileSystemTimeout, SlowFiles
from tests.running import DEADLINE_SECONDS

SOON = 0.05
"""Seconds, for a question that is not answered at all."""


async def answered(files: SlowFiles, question: Callable[[], str]) -> str:
    """The answer, as soon as there is one."""
    with anyio.fail_after(DEADLINE_SECONDS):
        while True:
            try:
                return await files.ask(question)
            except FileSystemTimeout:
                await anyio.sleep(0.005)


def unreadable() -> str:
    raise PermissionError("not for you")


async def test_what_was_cancelled_before_its_thread_began_is_in_nobodys_way():
    files = SlowFiles()
    for _ in range(3):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await files.ask(lambda: "nobody hears this")
        assert scope.cancelled_caught
    assert await files.ask(lambda: "here") == "here"


async def test_a_question_that_was_cancelled_and_hangs_is_the_only_one():
    files = SlowFiles(SOON)
    began, go_on = threading.Event(), threading.Event()

    def question() -> str:
        began.set()
        go_on.wait()
        return "late"

    async def ask() -> None:
        with suppress(FileSystemTimeout):  # a busy machine may not cancel it in time
            await files.ask(question)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(began.wait)
        tasks.cancel_scope.cancel()
    for _ in range(2):
        with pytest.raises(FileSystemTimeout):
            await files.ask(lambda: "there is but one thread")
    go_on.set()
    assert await answered(files, lambda: "here") == "here"


async def test_a_file_system_that_does_not_answer_is_silence_until_it_does():
    files = SlowFiles(SOON)
    go_on = threading.Event()
    with pytest.raises(FileSystemTimeout):
        await files.ask(go_on.wait)
    with pytest.raises(FileSystemTimeout):
        await files.ask(go_on.wait)
    go_on.set()
    assert await answered(files, lambda: "here") == "here"


async def test_what_a_question_raises_is_its_answer():
    files = SlowFiles()
    for _ in range(2):
        with pytest.raises(PermissionError, match="not for you"):
            await files.ask(unreadable)
    assert await files.ask(lambda: "here") == "here"
