"""A bad day: a supervisor, in one of its ways, in a place that it may write."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.ways import ORDINARY, PID_1, Way, unprivileged
from tests.running import Running


@pytest.fixture(params=["ordinary", "pid_1", "unprivileged"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    """All ways, unless the test is parametrised with some of their names (``indirect=True``)."""
    store = tmp_path / "shown"
    store.mkdir()
    chosen = {"ordinary": ORDINARY, "pid_1": PID_1, "unprivileged": unprivileged(store)}
    way = chosen[request.param]
    if way.missing is not None:
        pytest.skip(way.missing)
    return way


@pytest.fixture
def place(way: Way) -> Iterator[Path]:
    """A directory whose owner is the user of this way."""
    directory = Path(tempfile.mkdtemp(prefix="bad-day-"))
    os.chown(directory, way.uid, -1)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def bad_day(way: Way, place: Path) -> Iterator[Callable[..., Running]]:
    """Start supervisors in this way; what of them is left at the end of the test is a failure.

    ``bad_day(*arguments, before=..., home=..., **options)``: ``before`` comes before the words of
    the way; supervisors that run side by side have a ``home`` each, below the place.
    """
    started: list[Running] = []

    def start(
        *arguments: str, before: tuple[str, ...] = (), home: str = ".", **options: Any
    ) -> Running:
        root = place / home
        logs = root / "modelarts" / "log"
        logs.mkdir(parents=True, exist_ok=True)
        for made in (root, logs.parent, logs):
            os.chown(made, way.uid, -1)
        started.append(Running(root, *arguments, before=(*before, *way.before), **options))
        return started[-1]

    yield start
    left = [
        line
        for running in started
        if running.process.poll() is not None
        for line in running.survivors()
    ]
    for running in started:
        running.kill()
    assert not left
