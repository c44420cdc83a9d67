"""Processes that are looked at: the stage of a generation, or single ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ascend_supervisor.processes.children import Child, Children
from tests.workers.test_generation import stage

__all__ = ["stage"]


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    made = Children()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, made.reap)
    yield made
    loop.remove_signal_handler(signal.SIGCHLD)


Start = Callable[..., Awaitable[Child]]


@pytest.fixture
async def start(children: Children, tmp_path: Path) -> AsyncIterator[Start]:
    """``await start(source)``: a Python process, from its first word ``up`` on."""
    started: list[Child] = []

    async def python(source: str, *arguments: str, **environ: str) -> Child:
        read_end, write_end = os.pipe()
        words = (sys.executable, "-c", source, *arguments)
        child = children.spawn(
            words, environ={**os.environ, **environ}, cwd=str(tmp_path), output=write_end
        )
        started.append(child)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as output:
            assert await asyncio.to_thread(output.readline) == b"up\n"
        return child

    yield python
    for child in started:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            await child.ended()
