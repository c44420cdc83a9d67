"""docs/faults.md quotes only what the program can print, and real runs print it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache

import pytest

from tests.test_docs import ROOT, page

pytestmark = pytest.mark.one_python

PAGES = ("docs/faults.md", "docs/faults.zh.md")
QUOTED = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
HOLE = "..."
FAILING = "raise SystemExit(3)"
SILENT = "import time; time.sleep(600)"
RUNS = {
    "... failed first, in generation ...: ...": [sys.executable, "-c", FAILING],
    "no restarts were asked for (--restarts)": [sys.executable, "-c", FAILING],
    "... was not found in PATH (...": ["no-such-program"],
    "... has lines that end as on Windows (CRLF), so that its ...": ["./windows.sh"],
    "... is not executable (chmod +x ...": ["./plain.sh"],
    "... written anything for ...": [sys.executable, "-c", SILENT],
    "no command was given: ...": [],
}


def quoted(text: str) -> list[str]:
    """The sentences in the first cells of the page's tables."""
    return QUOTED.findall(text)


@cache
def messages() -> str:
    """Every text in the code, with a hole for each value that is filled in."""
    found = []
    for path in sorted((ROOT / "ascend_supervisor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else HOLE for p in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def unprintable(text: str) -> list[str]:
    """The fixed words of the page's sentences that stand in no message of the code."""
    pieces = [piece for one in quoted(text) for piece in one.split(HOLE)]
    return [piece for piece in pieces if piece.strip(" ,;:(") not in messages()]


@pytest.mark.parametrize("name", PAGES)
def test_every_quoted_sentence_stands_in_the_code(name):
    assert len(quoted(page(name))) > 20
    assert unprintable(page(name)) == []


def test_a_sentence_that_the_program_does_not_know_is_found():
    assert unprintable(page(PAGES[0]).replace("failed first", "was the first to fail"))


def test_both_languages_quote_the_same_sentences():
    assert quoted(page(PAGES[0])) == quoted(page(PAGES[1]))


@pytest.mark.parametrize("sentence", RUNS)
def test_a_real_run_prints_the_sentence(tmp_path, sentence):
    (tmp_path / "windows.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    (tmp_path / "windows.sh").chmod(0o755)
    (tmp_path / "plain.sh").write_text("#!/bin/sh\ntrue\n")
    options = ["--standalone", "1", "--hang-timeout", "1", "--hang-dump", "none"]
    places = ["--log-dir", str(tmp_path / "log"), "--termination-log", str(tmp_path / "end")]
    command = [sys.executable, "-m", "ascend_supervisor", *options, *places, "--console", "text"]
    if RUNS[sentence]:
        command += ["--", *RUNS[sentence]]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert sentence in quoted(page(PAGES[0]))
    pattern = ".*".join(map(re.escape, sentence.split(HOLE)))
    assert re.search(pattern, run.stdout + run.stderr), run.stdout + run.stderr
