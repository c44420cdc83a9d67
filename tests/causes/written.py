"""Writes the pages of the table of causes in their one form: ``python -m tests.causes.written``."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "ascend_supervisor" / "causes"


def written(text: str) -> str:
    """The page with each key on a line of its own."""
    return json.dumps(json.loads(text), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    for page in FOLDER.glob("*.json"):
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
