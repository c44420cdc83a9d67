"""promtool of Prometheus, and which figures an expression asks for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NO_NAMES = re.compile(
    r"""'[^']*'|"[^"]*"|\{[^}]*\}|\[[^]]*\]"""
    r"|\b(?:by|without|on|ignoring|group_left|group_right)\s*(?:\([^)]*\))?"
)
"""Texts, ranges and labels."""
NAME = re.compile(r"[a-z]\w*[_:]\w*\b(?!\s*\()")
"""Functions and operators that have no _ are none, nor is what has arguments."""


def figures_in(expression: str) -> set[str]:
    """The names of all figures, in PromQL."""
    return set(NAME.findall(NO_NAMES.sub(" ", expression)))


def complaints_of_promtool(*words: str) -> str:
    """All that it says if it is not content; skips the test where it is not installed."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    ran = subprocess.run([promtool, *words], capture_output=True, check=False, text=True)
    return ran.stdout + ran.stderr if ran.returncode else ""


def written(path: Path, document: dict[str, Any]) -> str:
    """Where the document is now; JSON is YAML, too."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)
