"""The Python exceptions in the last lines of a rank, and whose they are; pure.

An exception that ended the process begins in ``<module>``. Others were handled, or are asides:
those of a child, a thread, a destructor, an exit handler, a task that nobody waited for, or of
logging.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.evidence.speakers import HEADER, Line, lines_of


class Raised(Struct, frozen=True):
    """An exception: its type, and its message with what was written after it.

    The first line of ``text`` begins with the type. ``place`` is its innermost frame, ``at`` the
    number of its line. It ``is_uncaught`` if it began in the script itself. It ``has_sequel`` if
    others were raised while it was handled.
    """

    kind: str
    text: tuple[str, ...]
    place: str = ""
    at: int = 0
    is_uncaught: bool = True
    is_aside: bool = False
    is_report: bool = False
    has_sequel: bool = False

    @property
    def headline(self) -> str:
        """The line that tells it."""
        return self.text[0].strip()


TEXT_LINES = 80
"""How many lines after the frames are taken for its message: CANN's has dozens."""
_LEAD_LINES = 40
_FRAME = re.compile(r'\s+File "([^"]*)", line \d+(?:, in (.{1,200}))?')
_SYNTAX = re.compile(r"(?:SyntaxError|IndentationError|TabError)\b")
_REPEATED = re.compile(r"\[Previous line repeated \d+ more times?\]", re.ASCII)
_EXCEPTION = re.compile(r"([^\W\d][\w.]*)(?:\(([A-Z]\w*)\))?(?:: |:?$)")
"""In brackets: the type within Ray's own, whose lines follow."""
_GROUP = re.compile(r"^ +(?:\|(?: |$)|\+ Exception Group |\+-.*)")
_LINK = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
    r"|Original Traceback \(most recent call last\)"
)
_ASIDE = re.compile(
    r"(?:.{0,120}[\s:\]-])??(?:Exception ignored |--- Logging error ---"
    r"|Exception in (?:thread|callback|default exception handler)\b"
    r"|(?:Task|Future|Task exception|Future exception) .{0,40}was never retrieved"
    r"|[Uu]nhandled exception (?:in|during) |exception calling callback\b"
    r"|Exception (?:occurred|happened) during processing of request"
    r"|Error in (?:atexit\._run_exitfuncs|sys\.(?:excepthook|unraisablehook)):)"
    r"|Process \S.{0,200}:$"
)
_OF_ANOTHER = re.compile(
    r"multiprocessing/(?:process\.py:_bootstrap|spawn\.py:(?:spawn_main|_main)|queues\.py:_feed"
    r"|(?:forkserver|resource_tracker)\.py:(?:main|_serve_one)"
    r"|managers\.py:(?:_run_server|serve_client|serve_forever|handle_request))$"
    r"|(?:^|/)(?:threading\.py:_bootstrap(?:_inner)?|asyncio/events\.py:_run|weakref\.py:_exitfunc"
    r"|logging/__init__\.py:\w+|concurrent/futures/thread\.py:\w+)$"
)
"""Where an aside begins, as file and function: in a child, a thread, a callback or a log record."""
_DETAIL = re.compile(r"\s|[a-z_]{2,30}: ")
"""What asyncio prints between its sentence and the traceback."""
_IN_SCRIPT = re.compile(r"<module>|_run_module_as_main$")
_REPORT = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|(?:Base)?ExceptionGroup|_?RemoteTraceback|RayTaskError|RemoteError"
)
"""What a launcher or a group raises because something of its own has failed."""
_REFUSAL = re.compile(
    r"(?:.*/)?python[\d.]*: "
    r"(?:can't (?:open file|find '__main__')|No module named|Error while finding)"
    r"|\S*\b(?:ba|da)?sh: .*(?:No such file or directory|Permission denied|not found)$"
)
"""What an interpreter writes that cannot start its script."""


class _Block(Struct, frozen=True):
    """A traceback: the lines before it, its frames, and what follows these, at line ``at``."""

    lead: tuple[str, ...]
    frames: tuple[str, ...]
    text: tuple[str, ...]
    first: int
    last: int
    at: int
    head: str = ""


def raised_by(lines: Sequence[Line]) -> tuple[list[Raised], frozenset[int]]:
    """The exceptions of one writer, the first of each history; and which lines are asides.

    Of linked tracebacks the first counts: what is raised while another exception is handled is its
    consequence.
    """
    found: list[Raised] = []
    asides: set[int] = set()
    for chain in _chains(_blocks(lines)):
        is_aside = _is_aside(chain)
        if is_aside:
            asides.update(*(range(block.first, block.last + 1) for block in chain))
        told = _told(chain, is_aside=is_aside)
        if told is not None and found and found[-1].is_report and not is_aside:
            told = replace(told, is_uncaught=told.is_uncaught or found[-1].is_uncaught)
        if told is not None:
            found.append(told)
    return found, frozenset(asides)


def raised_in(message: str | None) -> Raised | None:
    """The exception of an error file, such as ``ValueError: no such file``."""
    lines = lines_of((message or "").strip().splitlines()[:TEXT_LINES])
    text = tuple(line.text for line in lines)
    return _named(text) if text else None


def refused_script(lines: Sequence[str]) -> str | None:
    """The last line, if in it Python or a shell says why it could not run its script or command.

    Such as ``python3: can't open file '/code/train.py': [Errno 2] No such file or directory``.
    """
    last = next((line for line in reversed(lines) if line.strip()), "")
    return last if _REFUSAL.match(last) else None


def _told(chain: Sequence[_Block], *, is_aside: bool) -> Raised | None:
    """The exception that came first, with the place of the first and the origin of the last."""
    inner = chain[-1] if _is_inner(chain[-1]) else chain[0]
    named = _named(inner.text)
    if named is None:
        return None
    frames = _origin(chain).frames
    outermost = _FRAME.match(frames[0]) if frames else None
    begins = outermost[2] if outermost else None
    place = _FRAME.match(inner.frames[-1]) if inner.frames else None
    return Raised(
        named.kind,
        named.text,
        place[1] if place else "",
        inner.at,
        is_uncaught=begins is None or bool(_IN_SCRIPT.search(begins)),
        is_aside=is_aside,
        is_report=bool(_REPORT.search(named.kind)),
        has_sequel=inner is not _origin(chain),
    )


def _is_inner(block: _Block) -> bool:
    """Whether it is the traceback that another one quotes as its origin."""
    return block.head.startswith("Original ")


def _named(text: tuple[str, ...]) -> Raised | None:
    """By the first line; where that has a type and no message, by the last line of the message."""
    named = _EXCEPTION.match(text[0]) if text else None
    if named is None:
        return None
    quoted = [line for line in text[1:] if named[2] and line.startswith(named[2])]
    if quoted:
        return Raised(named[2], (quoted[-1], *text))
    if not text[0].rstrip().endswith(":") or _REPORT.search(named[1]):
        return Raised(named[1], text)
    last = next((line for line in reversed(text) if line.strip()), text[0])
    within = _EXCEPTION.match(last)
    if within is not None and within[1] != named[1]:
        return Raised(within[1], (last, *text))
    return Raised(named[1], text if last == text[0] else (f"{text[0].rstrip()} {last}", *text))


def _is_aside(chain: Sequence[_Block]) -> bool:
    if any(map(_ASIDE.match, chain[0].lead)):
        return True
    begin = (_FRAME.match(frame) for frame in _origin(chain).frames[:2])
    return any(_OF_ANOTHER.search(f"{frame[1]}:{frame[2]}") for frame in begin if frame)


def _origin(chain: Sequence[_Block]) -> _Block:
    """The traceback that was printed: the others are quoted in it, or its history."""
    own = [block for block in chain if not _is_inner(block)]
    return own[-1] if own else chain[-1]


def _chains(blocks: Iterable[_Block]) -> Iterator[list[_Block]]:
    """Runs of linked tracebacks."""
    chain: list[_Block] = []
    for block in blocks:
        if chain and not (_is_inner(block) or any(map(_LINK.match, chain[-1].text))):
            yield chain
            chain = []
        chain.append(block)
    if chain:
        yield chain


def _blocks(lines: Sequence[Line]) -> Iterator[_Block]:
    at = 0
    texts = [_GROUP.sub("", line.text) if line.text[:1] == " " else line.text for line in lines]
    while at < len(texts):
        end = _end_of_frames(texts, at)
        if end is None:
            at += 1
            continue
        stop = _end_of_text(texts, end)
        text = tuple(texts[end:stop])
        has_header = HEADER.search(texts[at]) is not None
        if has_header or (text and _SYNTAX.match(text[0])):
            frames = tuple(line for line in texts[at:end] if _FRAME.match(line))
            lead = tuple(_lead(texts, at))
            yield _Block(
                lead,
                frames,
                text,
                lines[at - len(lead)].number,
                lines[stop - 1].number,
                lines[min(end, len(lines) - 1)].number,
                texts[at].strip(),
            )
            at = stop
        else:
            at = end


def _end_of_frames(texts: Sequence[str], at: int) -> int | None:
    """Where the frames end that begin here; None if none do."""
    header = HEADER.search(texts[at])
    if header is None and not _FRAME.match(texts[at]):
        return None
    end = at + 1
    if header is not None and not header[0].endswith(":") and not header[0].rstrip().endswith(":"):
        while end < len(texts) and texts[end][:1] in {"│", "╰", "|"}:  # drawn by rich
            end += 1
        return end
    while end < len(texts) and (texts[end][:1].isspace() or _REPEATED.match(texts[end])):
        end += 1
    return end


def _end_of_text(texts: Sequence[str], begin: int) -> int:
    """Where the message ends: at the next traceback, or at the sentence that announces an aside."""
    for at in range(begin, min(begin + TEXT_LINES, len(texts))):
        if _FRAME.match(texts[at]) and at > begin and _is_syntax_error(texts, at):
            return at
        if HEADER.search(texts[at]) or (at > begin and _ASIDE.match(texts[at])):
            return at
    return min(begin + TEXT_LINES, len(texts))


def _is_syntax_error(texts: Sequence[str], at: int) -> bool:
    end = _end_of_frames(texts, at)
    return end is not None and end < len(texts) and bool(_SYNTAX.match(texts[end]))


def _lead(texts: Sequence[str], at: int) -> Sequence[str]:
    """The lines that announce a traceback: the first sentence before it, and details between."""
    begin = at
    while begin > max(0, at - _LEAD_LINES):
        begin -= 1
        if not _DETAIL.match(texts[begin]):
            break
    lead = texts[begin:at]
    return lead if lead and _ASIDE.match(lead[0]) else lead[-1:]
