"""Who has written which lines of an output that several processes share; pure.

Ranks are marked by torch, torchrun (--tee), DeepSpeed's pdsh, Ray, MPI and srun, each in its way.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ascend_supervisor.evidence.patterns import pattern

LINE_CHARACTERS = 1000
"""What of a line is searched: a search must end soon, whatever a rank has written."""
MOST_LINES = 4000
MOST_CHARACTERS = 96 * 1024
MOST_SPEAKERS = 64


class Line(Struct, frozen=True):
    """A line without colours and marks, and its number in the whole output.

    ``rank`` is None where it does not say whose it is; ``mark`` is then what sets it apart.
    """

    number: int
    text: str
    rank: int | None = None
    mark: str = ""


_COLOUR = pattern(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_RANK = pattern(r"\[rank(\d{1,7})\]: ?|\[\d{1,9},(\d{1,7})\]<std(?:out|err)>: ?", re.ASCII)
"""torch since 2.2; Open MPI with --tag-output, and horovodrun."""
_MARK = pattern(
    r"\[[A-Za-z_]\w{0,30}?\d{1,7}\]: ?|\([^()]{1,80}? pid=\d{1,9}(?:, ip=[^()]{1,60})?\) ", re.ASCII
)
"""A local rank of torchrun with --tee; a process of Ray or vLLM."""
_OF_VLLM = pattern(r"ERROR \d\d-\d\d \d\d:\d\d:\d\d \[?[\w/.-]{1,80}:\d{1,6}\](?: |$)", re.ASCII)
"""Before each line of an error, with the time of that line."""
_TIMES = pattern(r" \[repeated \d{1,9}x across cluster\](?: \(Ray deduplicates logs.*)?$", re.ASCII)
"""What Ray adds to a line that several of its processes have written."""
_STAMP = pattern(
    r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? ", re.ASCII
)
"""The time that what carries a log has put before each line, in whatever process it was written."""
_STAMPED_FRAME = pattern(rf'{_STAMP.pattern}[^"]{{0,120}}  File "', re.ASCII)
HEADER = pattern(r"Traceback \(most recent call last\)(?::\s*$| [─-])")
_OF_GROUP = pattern(r"(?:  \+|(?:  ){2,20}\|)(?: Exception Group)? $")
_NUMBER = pattern(r"\[?(\d{1,7})\]?:? ", re.ASCII)
"""The whole mark of srun --label, and of MPICH's -prepend-rank."""
_MARK_CHARACTERS = 120
_NEAR = 64
"""So many lines of other ranks may come between two of one."""
STACK = pattern(r"(?:Current thread|Thread) 0x[0-9a-f]+ .{0,80}\(most recent call first\)")
_HEADS = pattern(rf'{HEADER.pattern}|{STACK.pattern}|  File "[^"]{{1,200}}", line \d+, in ')
_C_STACK = pattern(r"Current thread's C stack trace|Extension modules: ")
_STACK_FRAME = pattern(r" {1,2}(?:File |Binary file |\.\.\.|<)")

_OF_PYTHON = r":\d+: \w*Warning: |^Object allocated at \(most recent call last\):"
_REMARK = pattern(
    rf"\[W\d*[ \]]|\[WARNING\]|(?<!\bNCCL )\bWARN(?:ING)?\b|Warning:|{_OF_PYTHON}"
    r"|^\[(?:DEBUG|INFO|EVENT)\] [A-Z]+\("
)
"""NCCL has no other word for its errors. CANN and MindSpore mark each line with its level."""
_WITH_SOURCE = pattern(rf"{_OF_PYTHON}|:\d+: [A-Za-z]\w*: ")
_WARNS = pattern(r"  .*\bwarn\w*\(")
_MESSAGE_LINES = 20


def lines_of(output: Iterable[str]) -> tuple[Line, ...]:
    """The lines of ``output``, each with its writer; stacks of faulthandler are left out."""
    return tuple(_without_stacks(with_stacks(output)))


def with_stacks(output: Iterable[str]) -> tuple[Line, ...]:
    """The same with these stacks."""
    plain = [_TIMES.sub("", _COLOUR.sub("", line)) for line in _last(output)]
    if any(map(_STAMPED_FRAME.match, plain)):
        plain = [_STAMP.sub("", line, count=1) if _STAMP.match(line) else line for line in plain]
    marked = [_marked(number, text) for number, text in enumerate(plain)]
    return tuple(_with_unknown_marks(marked))


def _last(output: Iterable[str]) -> Sequence[str]:
    """As many of the last lines as are searched, each cut."""
    found: deque[str] = deque(maxlen=MOST_LINES)
    found.extend(line[:LINE_CHARACTERS] for line in output)
    characters = sum(map(len, found))
    while characters > MOST_CHARACTERS:
        characters -= len(found.popleft())
    return found


def by_speaker(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    """The lines of each writer, in the order of their first lines."""
    found: dict[tuple[int | None, str], list[Line]] = {}
    for line in lines:
        whose = (line.rank, line.mark)
        if whose in found or len(found) < MOST_SPEAKERS:
            found.setdefault(whose, []).append(line)
    return [tuple(each) for each in found.values()]


def _marked(number: int, text: str) -> Line:
    """Without the marks that are known; one may follow another."""
    rank, mark = None, ""
    while True:
        if found := _RANK.match(text):
            rank = int(found[1] or found[2])
        elif found := _MARK.match(text):
            mark = found[0].rstrip()
        elif found := _OF_VLLM.match(text):
            pass
        else:
            return Line(number, text, rank, "" if rank is not None else mark)
        text = text[found.end() :]


def _with_unknown_marks(lines: Sequence[Line]) -> Iterator[Line]:
    """What stands before ``Traceback``, and before a frame after it, sets lines apart as well.

    So does what stands before a stack of faulthandler.
    """
    marks = tuple(_unknown_marks(lines))
    for line in lines:
        if not line.text.startswith(marks):
            yield line
            continue
        mark = next(each for each in marks if line.text.startswith(each))
        named = _RANK.search(mark) or _NUMBER.fullmatch(mark)
        rank = line.rank if named is None else int(next(filter(None, named.groups())))
        text = line.text[len(mark) :]
        yield Line(line.number, text, rank, "" if rank is not None else line.mark + mark)


def _unknown_marks(lines: Sequence[Line]) -> set[str]:
    marks: set[str] = set()
    for at, line in enumerate(lines):
        header = _HEADS.search(line.text, 0, _MARK_CHARACTERS + 120)
        mark = _OF_GROUP.sub("", line.text[: header.start()]) if header else ""
        if not mark.strip("╭─ |+-") or len(mark) > _MARK_CHARACTERS or mark in marks:
            continue
        frame = mark + "  "
        if any(one.text.startswith(frame) for one in lines[at + 1 : at + _NEAR]):
            marks.add(mark)
        if len(marks) == MOST_SPEAKERS:
            break
    return marks


def _without_stacks(lines: Iterable[Line]) -> Iterator[Line]:
    """Without faulthandler's stacks: up to 100 frames of each thread, after what was said."""
    is_inside = False
    for line in lines:
        if STACK.match(line.text) or _C_STACK.match(line.text):
            is_inside = True
        elif not (is_inside and _STACK_FRAME.match(line.text)):
            is_inside = False
            yield line


def without_warnings(lines: Sequence[str]) -> tuple[str, ...]:
    """Without warnings and information, and the source that Python prints below its warnings.

    The message of a warning may have several lines; then the call of ``warn`` shows its end.
    """
    kept: list[str] = []
    begun = -_MESSAGE_LINES
    is_below = False
    for line in lines:
        is_near = len(kept) - begun < _MESSAGE_LINES
        if _REMARK.search(line):
            begun, is_below = len(kept), _WITH_SOURCE.search(line) is not None
        elif is_near and _WARNS.match(line):
            del kept[begun:]
        elif not (is_below and line.startswith("  ")):
            begun = len(kept) if _WITH_SOURCE.search(line) else begun
            kept.append(line)
            is_below = False
    return tuple(kept)
