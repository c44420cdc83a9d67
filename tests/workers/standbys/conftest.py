"""What a rank inherits in the tests of standbys."""

from __future__ import annotations

import os

import pytest

from tests.workers.standbys.warming import PYTHONS, Environ, Python


@pytest.fixture
def environ() -> Environ:
    wanted = {"PATH", "HOME", "LANG", "LC_ALL"}
    known = {name: value for name, value in os.environ.items() if name in wanted}
    return known | {"RANK": "5", "ODD": "a\udcffb", "EMPTY": "", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(params=PYTHONS, ids=lambda one: ".".join(map(str, one.version)))
def python(request: pytest.FixtureRequest) -> Python:
    """Ours, and each older one in which ranks may run."""
    found: Python = request.param
    return found
