"""docs/causes.md and its Chinese page are those of the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ascend_supervisor.causes.diagnosis import diagnosis_by
from ascend_supervisor.causes.table import CAUSES

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_pages_are_those_of_the_table():
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "causes-pages", "--print"],
        check=True,
        stdout=subprocess.PIPE,
    )
    told = page("causes.md") + page("causes.zh.md")
    assert made.stdout.decode() == told, "scripts/causes-pages makes them anew"


def test_each_cause_has_the_heading_that_its_events_link_to():
    for row in CAUSES.values():
        place, _, anchor = diagnosis_by(row, None).see.partition("#")
        assert (place, anchor) == ("docs/causes.md", row.id.lower())
        for name in ("causes.md", "causes.zh.md"):
            assert f"\n### {row.id}\n" in page(name)
