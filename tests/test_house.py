"""How large the house is: what `make house` prints stays below these figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

HOUSE = Path(__file__).parents[1] / "scripts" / "house"
MOST = {
    "files": 415,
    "rooms": 33,
    "import arrows": 190,
}
"""Room for a day's work; who needs more asks first which files are of one noun."""
WAYS = {
    "the bytes of a rank table, to the environment of a rank": (20, 6),
    "the end of a rank, from waitpid to our exit code": (22, 7),
    "a setting, from argv to its use": (18, 5),
    "a piece of output, from its pipe to the log": (6, 3),
}
"""Files and rooms at most, by way."""


@pytest.fixture(scope="module")
def printed() -> str:
    words = [sys.executable, str(HOUSE)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("what", "most"), MOST.items())
def test_the_house_does_not_grow(printed, what, most):
    found = re.search(rf"^.*\b(\d+) {what}", printed, re.MULTILINE)
    assert found, printed
    assert 0 < int(found.group(1)) <= most


@pytest.mark.parametrize(("way", "most"), WAYS.items())
def test_no_way_through_the_house_becomes_longer(printed, way, most):
    found = re.search(rf"^{way}: (\d+) files in (\d+) rooms$", printed, re.MULTILINE)
    assert found, printed
    files, rooms = map(int, found.groups())
    assert 2 < files <= most[0]
    assert 1 < rooms <= most[1]
