"""The Python exceptions in the last lines of a rank, and whose they are; pure.

An exception that ended the process begins in ``<module>``. Others were handled, or are asides:
those of a child, a thread, a destructor, an exit handler, a task that nobody waited for, or of
logging.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from posixpath import dirname

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.evidence.patterns import pattern
from ascend_supervisor.evidence.speakers import Line, lines_of
from ascend_supervisor.evidence.tracebacks import (
    ASIDE,
    EXCEPTION,
    FRAME,
    TEXT_LINES,
    Block,
    Chain,
    chains,
)


class SourceLine(Struct, frozen=True):
    """A line of a file, as a traceback prints it."""

    file: str
    line: str


class Raised(Struct, frozen=True):
    """An exception: its type, and its message with what was written after it.

    The first line of ``text`` begins with the type. ``place`` is the file of its innermost frame,
    ``caller`` that of the innermost one that is not of a library which raises for its caller, and
    ``own`` the innermost place outside of installed packages. ``script`` is the file that it began
    in, if a module was run there, ``at`` the number of the line that tells it. It ``is_uncaught``
    if it began in the script itself. It ``has_sequel`` if others were raised while it was handled;
    ``meant`` are the lines of those that were raised from it, or after it if it ``is_trial``:
    one of Python's own library. In its group it ``follows_hidden``
    ones if Python has not printed what came before it, because it was nested too deep.
    """

    kind: str
    text: tuple[str, ...]
    place: str = ""
    caller: str = ""
    own: SourceLine | None = None
    script: str = ""
    at: int = 0
    is_uncaught: bool = True
    is_aside: bool = False
    is_report: bool = False
    has_sequel: bool = False
    follows_hidden: bool = False
    meant: tuple[str, ...] = ()
    is_trial: bool = False

    @property
    def headline(self) -> str:
        """The line that tells it."""
        return self.text[0].strip()


_OF_ANOTHER = pattern(
    r"multiprocessing/(?:process\.py:_bootstrap|spawn\.py:(?:spawn_main|_main)|queues\.py:_feed"
    r"|(?:forkserver|resource_tracker)\.py:(?:main|_serve_one)"
    r"|managers\.py:(?:_run_server|serve_client|serve_forever|handle_request))$"
    r"|(?:^|/)(?:threading\.py:_bootstrap(?:_inner)?|asyncio/events\.py:_run|weakref\.py:_exitfunc"
    r"|logging/__init__\.py:\w+|concurrent/futures/thread\.py:\w+)$"
)
"""Where an aside begins, as file and function: in a child, a thread, a callback or a log record."""
_IN_SCRIPT = pattern(r"<module>|_run_module_as_main$")
_REPORT = pattern(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException"
    r"|(?:Base)?ExceptionGroup|_?RemoteTraceback|RayTaskError|RemoteError"
)
"""What a launcher or a group raises because something of its own has failed."""
_ELSEWHERE = pattern(
    r"\b[Ss]ee (?:the )?(?:root cause above|stack trace\b.{0,20}\broot cause)"
    r"|check the stack trace above for the root cause"
)
"""A message that says itself that the cause stands elsewhere, as vLLM's do of its processes."""
_INSTALLED = pattern(r"(?:^|/)(?:(?:site|dist)-packages|lib(?:64)?/python3[\d.]*)/|^<frozen ")
"""The standard library, too: no script stands there."""
_OF_PYTHON = pattern(r"(?:^|/)lib(?:64)?/python3[\d.]*/(?!(?:site|dist)-packages/)|^<frozen ")
"""What fails there is often a trial: what is raised while that is handled tells more."""
_FOR_ITS_CALLER = pattern(
    rf"(?:^|/)(?:site|dist)-packages/(?:torch|torch_npu|numpy|mindspore)/|{_OF_PYTHON.pattern}"
)
"""Where it raises an exception, what called it is wrong: the standard library, what computes."""
_SOURCES = pattern(
    r"/(?:llamafactory|swift|verl|vllm|vllm_ascend|sglang|megatron|mindspeed\w*|deepspeed|torch_npu"
    r"|transformers|diffusers|accelerate|peft|trl|mindformers|mindspore|mindnlp|fairseq|detectron2"
    r"|mm(?:cv|engine|det|seg|pretrain|pose|ocr|action|rotate|cls)|colossalai|xtuner|third_party)/"
)
"""Frameworks that are often imported from a source tree beside the script."""
_REFUSAL = pattern(
    r"(?:.*/)?python[\d.]*: "
    r"(?:can't (?:open file|find '__main__')|No module named|Error while finding)"
    r"|\S*\b(?:ba|da)?sh: .*(?:No such file or directory|Permission denied|not found)$"
)
"""What an interpreter writes that cannot start its script."""
_RECORD = pattern(
    r"\[?(?:\d{4}-\d\d-\d\d[ T]|[IWEF]\d* |(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL)\b[]:| ])"
    r"|.{1,400}:\d+: \w*Warning: "
)
"""A log record or a warning: what others write after a message."""
_CANCELLED = pattern(
    r"(?:[\w.]+\.)?(?:KeyboardInterrupt|SystemExit|GeneratorExit|Cancelled(?:Error)?)\b"
)


def raised_by(lines: Sequence[Line]) -> tuple[list[Raised], frozenset[int]]:
    """The exceptions of one writer, the first of each history; and which lines are asides.

    Of linked tracebacks the first counts: what is raised while another exception is handled is its
    consequence. Of a group it is the first exception in it.
    """
    found: list[Raised] = []
    asides: set[int] = set()
    for chain in chains(lines):
        is_aside = _is_aside(chain)
        if is_aside:
            parts = (*chain.blocks, *(block for group in chain.groups for block in group))
            asides.update(*(range(block.first, block.last + 1) for block in parts))
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


def is_of_script(raised: Raised) -> bool:
    """Whether the script's own file raised it, or one beside or below it, or called what did.

    A package may also be imported from its sources: False where that is so, or is not known.
    """
    caller, script = raised.caller, raised.script
    where = dirname(script)
    is_below = len(where) > 1 and caller.startswith(f"{where}/") and not _SOURCES.search(caller)
    is_beside = bool(script) and (dirname(caller) == where or is_below)
    return is_beside and _INSTALLED.search(caller) is None


def _told(chain: Chain, *, is_aside: bool) -> Raised | None:
    """The exception that came first, with the place of the first and the origin of the last."""
    inner, outer = _first_of(chain), chain.outer
    named = _named(inner.text)
    if named is None:
        return None
    # A group that is made of what except* leaves has no frames of its own.
    begun = next((block for block in (outer, *chain.within) if block.frames), outer)
    frames = [frame for frame in map(FRAME.match, begun.frames) if frame]
    begins = frames[0][3] if frames else None
    run = (frame[1] for frame in frames if frame[3] == "<module>")
    place = FRAME.match(inner.frames[-1]) if inner.frames else None
    caller = _last_outside(inner.frames, _FOR_ITS_CALLER)
    own = _last_outside((*outer.frames, *inner.frames), _INSTALLED)
    is_trial = place is not None and _OF_PYTHON.search(place[1]) is not None
    after = (block for block in chain.blocks if block.is_meant or (is_trial and block.is_sequel))
    return Raised(
        named.kind,
        named.text,
        place[1] if place else "",
        caller.file if caller else "",
        own,
        next(run, ""),
        inner.at,
        is_uncaught=_is_uncaught(begun, begins),
        is_aside=is_aside,
        is_report=bool(_REPORT.search(named.kind) or _ELSEWHERE.search(named.headline)),
        has_sequel=chain.inner is not outer,
        follows_hidden=_follows_hidden(inner, chain.within),
        meant=tuple(line for block in after for line in block.text),
        is_trial=is_trial,
    )


def _is_uncaught(begun: Block, function: str | None) -> bool:
    """Whether it began in the script; unknown, so False, where the first frames may be missing."""
    if function is None:
        return bool(begun.head or begun.frames)
    return bool(begun.head and _IN_SCRIPT.search(function))


def _last_outside(frames: Sequence[str], libraries: re.Pattern[str]) -> SourceLine | None:
    found = filter(None, map(FRAME.match, reversed(frames)))
    places = (SourceLine(frame[1], frame[2]) for frame in found)
    return next((place for place in places if not libraries.search(place.file)), None)


def _first_of(chain: Chain) -> Block:
    """The exception that came first; where it stands again in a group with its cause, the cause."""
    first = _first_in(chain.within) or chain.inner
    for group in chain.groups:
        for at, block in enumerate(group):
            if block.is_sequel and block.is_same(first):
                return _first_in(_history(group, at)) or first
    return first


def _follows_hidden(first: Block, group: Sequence[Block]) -> bool:
    """Whether a group before ``first`` was printed without the exceptions in it."""
    return any(
        one.is_group and after.depth <= one.depth and after.at <= first.at
        for one, after in pairwise(group)
    )


def _first_in(group: Sequence[Block]) -> Block | None:
    """The first exception in a group that no signal or cancellation has brought, or else any."""
    found = [
        block
        for block in group
        if not (block.is_group or block.is_sequel) and EXCEPTION.match("".join(block.text[:1]))
    ]
    causes = (block for block in found if not _CANCELLED.match(block.text[0]))
    return next(causes, found[0] if found else None)


def _history(group: Sequence[Block], at: int) -> Sequence[Block]:
    """What was raised before the one at ``at``, as Python 3.13 and the backport print it."""
    begin = at
    while begin and (group[begin].depth > group[at].depth or group[begin].is_sequel):
        begin -= 1
    return group[begin:at]


def _named(text: tuple[str, ...]) -> Raised | None:
    """By the first line; where that has a type and no message, by the last line of the message."""
    named = EXCEPTION.match(text[0]) if text else None
    if named is None:
        return None
    quoted = [line for line in text[1:] if named[2] and line.startswith(named[2])]
    if quoted:
        return Raised(named[2], (quoted[-1], *text))
    if not text[0].rstrip().endswith(":") or _REPORT.search(named[1]):
        return Raised(named[1], text)
    until = next((at for at in range(1, len(text)) if _RECORD.match(text[at])), len(text))
    last = next((line for line in reversed(text[:until]) if line.strip()), text[0])
    within = EXCEPTION.match(last)
    if within is not None and within[1] != named[1]:
        return Raised(within[1], (last, *text))
    return Raised(named[1], text if last == text[0] else (f"{text[0].rstrip()} {last}", *text))


def _is_aside(chain: Chain) -> bool:
    if any(map(ASIDE.match, chain.blocks[0].lead)):
        return True
    begin = (FRAME.match(frame) for frame in chain.outer.frames[:2])
    return any(_OF_ANOTHER.search(f"{frame[1]}:{frame[3]}") for frame in begin if frame)
