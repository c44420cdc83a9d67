"""Fixtures that more than one file needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import Running


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start supervisors whose processes do not outlive the test: ``supervised(*arguments)``."""
    started: list[Running] = []

    def start(*arguments: str, **options: Any) -> Running:
        root = options.pop("root", tmp_path)
        started.append(Running(root, *arguments, **options))
        return started[-1]

    yield start
    for running in started:
        running.kill()
