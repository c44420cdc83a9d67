"""How large the house is: what `make house` prints stays below these figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "scripts" / "house"
MOST = {
    "files": 495,
    "rooms": 37,
    "import arrows": 270,
}
"""Room for a day's work; who needs more asks first which files are of one noun."""
FILES_OF_THE_WAY, ROOMS_OF_THE_WAY = 31, 11


def test_the_house_and_the_way_of_a_rank_table_through_it_do_not_grow():
    words = [sys.executable, str(HOUSE)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    figures, way = printed.splitlines()[-2:]
    for what, most in MOST.items():
        found = re.search(rf"(\d+) {what}", figures)
        assert found, figures
        assert 0 < int(found.group(1)) <= most, figures
    found = re.search(r"(\d+) files in (\d+) rooms", way)
    assert found, way
    assert 10 < int(found.group(1)) <= FILES_OF_THE_WAY, way
    assert 4 < int(found.group(2)) <= ROOMS_OF_THE_WAY, way
