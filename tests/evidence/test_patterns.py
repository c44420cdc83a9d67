"""Regular expressions are compiled late, and each of them can be."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ascend_supervisor.evidence
from ascend_supervisor.evidence.patterns import compiled, pattern
from tests.running import DEADLINE_SECONDS

ROOM = Path(ascend_supervisor.evidence.__file__).parent

COUNTS = """
import re
made = []
compiles = re.compile
re.compile = lambda *words, **flags: made.append(words) or compiles(*words, **flags)
from ascend_supervisor.workers.late_imports import compile_late, import_late
import_late()
from ascend_supervisor.evidence import speakers
late = {text for text, *_ in made} & {speakers.HEADER.pattern}
import anyio
anyio.run(compile_late)
print(len(late), len({text for text, *_ in made} & {speakers.HEADER.pattern}))
"""


def test_all_can_be_compiled():
    for module in ROOM.glob("*.py"):
        import_module(f"ascend_supervisor.evidence.{module.stem}")
    assert sum(1 for _ in compiled()) > 50


def test_they_are_compiled_a_moment_after_the_import():
    words = [sys.executable, "-c", COUNTS]
    run = subprocess.run(words, stdout=subprocess.PIPE, timeout=DEADLINE_SECONDS, check=True)
    assert run.stdout.split() == [b"0", b"1"]


def test_one_that_is_not_compiled_yet_is_used_like_any_other():
    one = pattern("(?P<word>[a-z]+)", re.IGNORECASE)
    assert one.pattern == "(?P<word>[a-z]+)"
    found = one.search("12 Ab")
    assert found is not None
    assert found["word"] == "Ab"
    assert one.sub("x", "a1") == "x1"
    assert (one.groups, one.search("1")) == (1, None)


def test_a_wrong_one_is_found_when_it_is_used():
    wrong = pattern("(")
    try:
        with pytest.raises(re.error):
            wrong.search("")
    finally:
        ascend_supervisor.evidence.patterns._LATER.pop()
