"""What a rank inherits in the tests of standbys."""

from __future__ import annotations

import os

import pytest

from tests.standbys.warming import Environ


@pytest.fixture
def environ() -> Environ:
    wanted = {"PATH", "HOME", "LANG", "LC_ALL"}
    known = {name: value for name, value in os.environ.items() if name in wanted}
    return known | {"RANK": "5", "ODD": "a\udcffb", "EMPTY": "", "PYTHONDONTWRITEBYTECODE": "1"}
