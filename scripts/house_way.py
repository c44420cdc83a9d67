"""The files that something passes on its way through the program: a line has way, tab and file.

``table`` makes the plan of a real rank table (--check), and notes each file of ours of which a
function is called, from the first call with the bytes of the table until the processes are told.
``job`` runs a job of one rank, and notes each file of ours of which a function gets a mark or gives
it back, as it is or within a value: a setting, a piece of the rank's output, its exit status. What
others are told, as an event, is on no way.
"""

from __future__ import annotations

import re
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from msgspec import Struct, field

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "ascend_supervisor"
TABLE = ROOT / "tests" / "data" / "rank_tables" / "template1-two-servers.json"
CHECK = ("--rank-table", str(TABLE), "--node-rank", "0", "--method", "ranktable", "--check")
OF_TABLE = "the bytes of a rank table, to the environment of a rank"
BEGINS = (HOUSE / "cluster" / "parsing.py", "parse")
ENDS = (HOUSE / "program" / "answers.py", "_process")

GRACE, SAID, STATUS = 7.8125, b"the way of a line", 211
JOB = ("--standalone", "1", "--console-ranks", "none", "--grace", str(GRACE))
COMMAND = ("--", "sh", "-c", f"printf '%s way of a line\\n' the; exit $(({STATUS - 1} + 1))")
"""Neither mark stands in these words, which go another way."""
WRITES, LEAVES = (HOUSE / "output" / "log_file.py", "_append"), (HOUSE / "cli.py", "_leave")
TOLD = tuple(f"{HOUSE.name}.{name}" for name in ("events.", "reporters.", "output.console_thread"))
"""Where the values are defined by which others are told: what gets one is on no way."""

Place = tuple[Path, str]


def place_of(frame: FrameType) -> Place:
    return Path(frame.f_code.co_filename), frame.f_code.co_name


def tell(way: str, files: dict[Path, None]) -> None:
    for file in files:
        print(f"{way}\t{file.relative_to(HOUSE)}", file=sys.stderr, flush=True)


class Called:
    """Notes files while it is asked for each call, in whatever thread."""

    def __init__(self) -> None:
        self.files: dict[Path, None] = {}

    def __call__(self, frame: FrameType, what: str, _: object) -> None:
        if what != "call" or frame.f_code.co_name == "<module>":
            return
        place = place_of(frame)
        if self.files and place == ENDS:
            sys.setprofile(None)
            tell(OF_TABLE, self.files)
            self.files = {}
        elif (self.files or place == BEGINS) and HOUSE in place[0].parents:
            self.files.setdefault(place[0])


def holds(number: float, *others: type) -> Callable[[object], bool]:
    """Whether a value is this number, or has it inside; so may values of ``others``."""
    written = re.compile(rf"\b{re.escape(str(number))}\b")
    looked_into = (Struct, tuple, *others)

    def found(value: object) -> bool:
        if isinstance(value, looked_into):
            return written.search(repr(value)) is not None
        return type(value) is type(number) and value == number

    return found


class Way(Struct):
    """Of what ``is_mark``, until it is in a call of the function ``ends``."""

    name: str
    is_mark: Callable[[object], bool]
    ends: Place = LEAVES
    files: dict[Path, None] = field(default_factory=dict)
    is_over: bool = False


class Carried:
    """Notes files while it is asked for each call and each return, in whatever thread."""

    def __init__(self) -> None:
        self._ways = (
            Way("the end of a rank, from waitpid to our exit code", holds(STATUS)),
            Way("a setting, from argv to its use", holds(GRACE, list, str)),
            Way(
                "a piece of output, from its pipe to the log",
                lambda value: isinstance(value, bytes) and SAID in value,
                WRITES,
            ),
        )
        self._telling: dict[int, FrameType] = {}
        """By thread: the call by which others are told."""

    def __call__(self, frame: FrameType, what: str, result: object) -> None:
        thread = threading.get_ident()
        if self._telling.get(thread) is frame and what == "return":
            del self._telling[thread]
        if thread in self._telling or not frame.f_code.co_filename.startswith(f"{HOUSE}/"):
            return
        values = list(arguments(frame)) if what == "call" else [result]
        told = [value for value in values if type(value).__module__.startswith(TOLD)]
        if what == "call" and told:
            self._telling[thread] = frame
        elif not told:
            self._note(place_of(frame), values)

    def _note(self, place: Place, values: Sequence[object]) -> None:
        for way in self._ways:
            if not way.is_over and any(map(way.is_mark, values)):
                way.files.setdefault(place[0])
                way.is_over = place == way.ends
        if place == LEAVES:
            sys.setprofile(None)
            for way in self._ways:
                tell(way.name, way.files)


def arguments(frame: FrameType) -> Iterator[object]:
    code, local = frame.f_code, frame.f_locals
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name in local:
            yield local[name]


def main() -> None:
    sys.path.insert(0, str(ROOT))
    with TemporaryDirectory() as directory:
        if sys.argv[1] == "table":
            walk: Called | Carried = Called()
            words: tuple[str, ...] = (*CHECK, "--", "true")
        else:
            walk = Carried()
            state = f"{directory}/state.json"
            words = ("--log-dir", directory, "--state-file", state, *JOB, *COMMAND)
        sys.argv = ["ascend-supervisor", *words]
        threading.setprofile(walk)
        sys.setprofile(walk)
        runpy.run_module("ascend_supervisor", run_name="__main__")


if __name__ == "__main__":
    main()
