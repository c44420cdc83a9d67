"""The tracebacks in the lines of one writer, and which belong together; pure.

Those of an exception group (PEP 654) stand in a column of their own, by depth; the backport for
Python 3.10 prints the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import HEADER, Line

TEXT_LINES = 80
"""How many lines after the frames are taken for its message: CANN's has dozens."""
FRAME = pattern(r'\s+File "([^"]*)", line (\d+)(?:, in (.{1,200}))?')
EXCEPTION = pattern(r"([^\W\d][\w.]*)(?:\(([A-Z]\w*)\))?(?:: |:?$|(?<=Error):(?=\S))")
"""In brackets: the type within Ray's own, whose lines follow."""
ASIDE = pattern(
    r"(?:.{0,120}[\s:\]-])??(?:Exception ignored |--- Logging error ---"
    r"|Exception in (?:thread|callback|default exception handler)\b"
    r"|(?:Task|Future|Task exception|Future exception) .{0,40}was never retrieved"
    r"|[Uu]nhandled exception (?:in|during) |exception calling callback\b"
    r"|Exception (?:occurred|happened) during processing of request"
    r"|Error in (?:atexit\._run_exitfuncs|sys\.(?:excepthook|unraisablehook)):)"
    r"|Process \S.{0,200}:$"
)
_OF_C10D = pattern(r"\[[EWF](?:\d{3,4} [\d:.]+)? \w+\.(?:cpp|cc|ts):\d+\]", re.ASCII)
"""What torch's or torch_npu's threads log: of no exception."""
_LEAD_LINES = 40
_PLAINLY = pattern(
    r"[\w.]*(?:Error|Exception|NotFound|Interrupt|Iteration|Exit)(?:: ?|$)"
    r"|(?:[A-Za-z_]\w*\.)+(?:[A-Z]\w*|\w*error)(?:: |$)"
)
"""What follows frames without a header: a log may begin within a traceback, or be filtered."""
_STACK = pattern(r"Stack \(most recent call last\)|.*\(most recent call first\)")
_REPEATED = pattern(r"\[Previous line repeated \d+ more times?\]", re.ASCII)
_MEANT = pattern("The above exception was the direct cause")
_LINK = pattern(rf"During handling of the above exception|{_MEANT.pattern}")
_DETAIL = pattern(r"\s|[a-z_]{2,30}: ")
"""What asyncio prints between its sentence and the traceback."""
_IN_GROUP = pattern(r"^( +)(?:\|(?: |$)|\+ (?=Exception Group )|(\+-[+-]*)(?: (\d+|\.\.\.) -+)?$)")
_COLUMNS = 2
"""By so many the lines of a group within a group are moved."""


class Block(Struct, frozen=True):
    """A traceback: the lines before it, its frames, and what follows these, at line ``at``.

    It ``is_group`` if exceptions follow that have a greater ``depth``. It ``is_sequel`` if it was
    raised while the one before of its depth was handled, and ``is_meant`` if it was raised from
    that. One of a group may have no frames.
    """

    lead: tuple[str, ...]
    frames: tuple[str, ...]
    text: tuple[str, ...]
    first: int
    last: int
    at: int
    head: str = ""
    depth: int = 0
    is_group: bool = False
    is_sequel: bool = False
    is_meant: bool = False

    @property
    def is_origin(self) -> bool:
        """Whether another traceback quotes it as its origin."""
        return self.head.startswith("Original ")

    def is_same(self, other: Block) -> bool:
        """Whether it is one exception that was printed twice."""
        return self.frames == other.frames and self.text[:1] == other.text[:1]


class Chain(Struct, frozen=True):
    """Linked tracebacks, the first raised first; ``groups`` holds those in each, if it is one."""

    blocks: tuple[Block, ...]
    groups: tuple[tuple[Block, ...], ...]

    @property
    def within(self) -> tuple[Block, ...]:
        """Those in the first, if it is a group."""
        return self.groups[0]

    @property
    def inner(self) -> Block:
        """What was raised first."""
        return self.blocks[-1] if self.blocks[-1].is_origin else self.blocks[0]

    @property
    def outer(self) -> Block:
        """The traceback that was printed: the others are quoted in it, or its history."""
        own = [block for block in self.blocks if not block.is_origin]
        return own[-1] if own else self.blocks[-1]


class _Row(Struct, frozen=True):
    """A line without what draws a group, or a rule that ``begins`` an exception, or ends the group.

    The rule that ``opens`` a group begins its first exception.
    """

    text: str
    depth: int = 0
    is_rule: bool = False
    begins: bool = False
    opens: bool = False


def chains(lines: Sequence[Line]) -> Iterator[Chain]:
    """The tracebacks in their order, those of a group with the group."""
    chain: list[Block] = []
    within: list[list[Block]] = []
    for block in _blocks(lines):
        depth = chain[0].depth if chain else 0
        if chain and block.depth > depth and chain[-1].is_group:
            within[-1].append(block)
            continue
        is_linked = block.is_origin or (block.is_sequel and block.depth == depth)
        if chain and not is_linked:
            yield Chain(tuple(chain), tuple(map(tuple, within)))
            chain, within = [], []
        chain.append(block)
        within.append([])
    if chain:
        yield Chain(tuple(chain), tuple(map(tuple, within)))


def _rows(lines: Iterable[Line]) -> Iterator[_Row]:
    for line in lines:
        drawn = _IN_GROUP.match(line.text) if line.text[:1] == " " else None
        if drawn is None:
            yield _Row(line.text)
            continue
        depth = max(0, len(drawn[1]) // _COLUMNS - 1)
        if drawn[2]:
            opens = drawn[2].startswith("+-+")
            yield _Row("", depth, is_rule=True, begins=drawn[3] is not None, opens=opens)
        else:
            yield _Row(line.text[drawn.end() :], depth)


def _blocks(lines: Sequence[Line]) -> Iterator[Block]:
    at = before = 0
    rows = tuple(_rows(lines))
    while at < len(rows):
        end = _end_of_frames(rows, at)
        if end is None:
            at += 1
            continue
        stop = _end_of_text(rows, end)
        text = tuple(row.text for row in rows[end:stop])
        has_header = HEADER.search(rows[at].text) is not None
        if has_header or end == at or _is_headless(rows, at, end):
            lead, depth = tuple(_lead(rows, at)), rows[at].depth
            yield Block(
                lead,
                tuple(row.text for row in rows[at:end] if FRAME.match(row.text)),
                text,
                lines[at - len(lead)].number,
                lines[max(at, stop - 1)].number,
                lines[min(end, len(lines) - 1)].number,
                rows[at].text.strip() if has_header else "",
                depth,
                is_group=stop < len(rows) and rows[stop].opens,
                is_sequel=_has_link(rows[before:at], depth, _LINK),
                is_meant=_has_link(rows[before:at], depth, _MEANT),
            )
            before = end
            at = max(at + 1, stop)
        else:
            at = end


def _has_link(rows: Iterable[_Row], depth: int, link: re.Pattern[str]) -> bool:
    return any(row.depth == depth and link.match(row.text) for row in rows)


def _end_of_frames(rows: Sequence[_Row], at: int) -> int | None:
    """Where the frames end that begin here; None if none do, and no exception of a group."""
    text = rows[at].text
    header = HEADER.search(text)
    if header is None and not FRAME.match(text):
        is_drawn = rows[max(0, at - 1)].begins or rows[min(at + 1, len(rows) - 1)].opens
        return at if is_drawn and EXCEPTION.match(text) else None
    end = at + 1
    if header is not None and not header[0].rstrip().endswith(":"):
        while end < len(rows) and rows[end].text[:1] in {"│", "╰", "|"}:  # drawn by rich
            end += 1
        return end
    while end < len(rows) and not rows[end].is_rule and _is_of_frames(rows[end].text):
        end += 1
    return end


def _is_of_frames(text: str) -> bool:
    """Empty lines, too: what carried a log may have put one below each line."""
    return not text or text[:1].isspace() or _REPEATED.match(text) is not None


def _end_of_text(rows: Sequence[_Row], begin: int) -> int:
    """Where the message ends: at a rule, the next traceback, or what announces an aside."""
    last = min(begin + TEXT_LINES, len(rows))
    for at in range(begin, last):
        text = rows[at].text
        if at > begin and FRAME.match(text):
            end = _end_of_frames(rows, at)
            if end is not None and _is_headless(rows, at, end):
                return at
        is_other = at > begin and (ASIDE.match(text) or _OF_C10D.match(text))
        if rows[at].is_rule or HEADER.search(text) or is_other:
            return at
    return last


def _is_headless(rows: Sequence[_Row], at: int, end: int) -> bool:
    """Whether an exception follows these frames: a log may be cut or filtered at any line.

    The stack of a log record or a dump has no end of this kind.
    """
    is_stack = at > 0 and _STACK.match(rows[at - 1].text) is not None
    return end < len(rows) and not is_stack and _PLAINLY.match(rows[end].text) is not None


def _lead(rows: Sequence[_Row], at: int) -> Sequence[str]:
    """The lines that announce a traceback: the first sentence before it, and details between."""
    begin = at
    while begin > max(0, at - _LEAD_LINES):
        begin -= 1
        if not _DETAIL.match(rows[begin].text):
            break
    lead = [row.text for row in rows[begin:at]]
    return lead if lead and ASIDE.match(lead[0]) else lead[-1:]
