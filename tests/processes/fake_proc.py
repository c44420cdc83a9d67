"""A /proc of a test's own, in which every process leads a session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def make(root: Path, parents: Mapping[int, int], listed: Mapping[int, str]) -> Path:
    """``parents`` of the processes that live now; ``listed``: children as they were listed.

    Between the two looks numbers may have been given to others.
    """
    for pid, parent in parents.items():
        task = root / str(pid) / "task" / str(pid)
        task.mkdir(parents=True)
        (task / "children").write_text(listed.get(pid, ""))
        (root / str(pid) / "stat").write_text(f"{pid} (a) S {parent} {pid} {pid}" + " 0" * 40)
    return root
