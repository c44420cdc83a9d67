"""The files that a rank table passes on its way to the environment of a rank, one a line.

Makes the plan of a real table (--check) and notes each file of ours of which a function is called,
from the first call with the bytes of the table until the processes are told.
"""

from __future__ import annotations

import runpy
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "ascend_supervisor"
TABLE = ROOT / "tests" / "data" / "rank_tables" / "template1-two-servers.json"
WORDS = ("--rank-table", str(TABLE), "--node-rank", "0", "--method", "ranktable", "--check")
BEGINS = (HOUSE / "cluster" / "parsing.py", "parse")
ENDS = (HOUSE / "program" / "answers.py", "_process")


class Walk:
    """Notes files while it is asked for each call, in whatever thread."""

    def __init__(self) -> None:
        self.files: dict[Path, None] = {}

    def __call__(self, frame: FrameType, what: str, _: Any) -> None:
        if what != "call" or frame.f_code.co_name == "<module>":
            return
        path = Path(frame.f_code.co_filename)
        place = (path, frame.f_code.co_name)
        if self.files and place == ENDS:
            sys.setprofile(None)
            print(*(file.relative_to(HOUSE) for file in self.files), sep="\n", file=sys.stderr)
            self.files = {}
        elif (self.files or place == BEGINS) and HOUSE in path.parents:
            self.files.setdefault(path)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    sys.argv = ["ascend-supervisor", *WORDS, "--", "true"]
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    runpy.run_module("ascend_supervisor", run_name="__main__")


if __name__ == "__main__":
    main()
