"""A simulated cluster for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recovery.supervisors import SimulatedCluster
from tests.recovery.tables import template_2
from tests.running import Running


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[SimulatedCluster]:
    """Its tables are of template 2, unless the test gives it another form."""
    made = SimulatedCluster(tmp_path, supervised, template_2)
    yield made
    made.close()
