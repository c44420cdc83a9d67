"""A simulated cluster for each test, and what of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recovery.supervisors import SimulatedCluster
from tests.recovery.tables import template_2
from tests.running import Running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-events",
        metavar="DIRECTORY",
        help="write what happened in each simulated cluster there, for scripts/timelines",
    )


@pytest.fixture
def cluster(
    tmp_path: Path, supervised: Callable[..., Running], request: pytest.FixtureRequest
) -> Iterator[SimulatedCluster]:
    """Its tables are of template 2, unless the test gives it another form."""
    made = SimulatedCluster(tmp_path, supervised, template_2)
    yield made
    if directory := request.config.getoption("--keep-events", None):
        made.keep_events(Path(directory) / story_of(request))
    made.close()


def story_of(request: pytest.FixtureRequest) -> str:
    """The name of the picture that a test is for, or its own name."""
    picture = request.node.get_closest_marker("picture")
    name: str = picture.args[0] if picture else request.node.name.replace("/", "-")
    return name
