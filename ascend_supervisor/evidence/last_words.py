"""What the last lines of a failed rank say: an exception, a code of CANN, a lost peer; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ascend_supervisor.evidence.cann_codes import is_inner, spoken_code
from ascend_supervisor.evidence.communication import Loss, loss
from ascend_supervisor.evidence.exceptions import Raised, first_raised, of_rank, raised_in
from ascend_supervisor.outcome import Failure


class Words(Struct, frozen=True):
    """``is_own``: an error of the script or a lack of memory, and nothing speaks of a lost peer.

    ``lines`` are those of the rank. ``code`` is one of CANN's.
    """

    lines: tuple[str, ...]
    is_own: bool
    code: str | None
    loss: Loss | None


def words_of(failure: Failure) -> Words:
    """The message of the exception that ended the rank counts; without one, all of its lines."""
    lines = of_rank(failure.last_lines, failure.rank)
    raised = first_raised(lines) or raised_in(failure.exception)
    if raised is None or failure.status.status != UNCAUGHT:
        code, lost = spoken_code(lines), loss(_without_warnings(lines))
        is_own = any(map(_BAD_END.search, lines))
    elif _SCRIPTS.search(raised.kind):
        code, lost = None, loss(raised.text[:1])
        is_own = True
    else:
        code, lost = spoken_code(raised.text) or spoken_code(lines), loss(raised.text)
        is_own = _is_of_script(raised)
    clear = lost is not None or (code is not None and not is_inner(code))
    return Words(lines, is_own and not clear, code, lost)


UNCAUGHT = 1
"""The exit status of a Python process that an exception ends: others were handled before."""
_SCRIPTS = re.compile(
    r"(?:^|\.)(?:ValueError|TypeError|KeyError|IndexError|LookupError|AttributeError|NameError"
    r"|UnboundLocalError|ImportError|ModuleNotFoundError|AssertionError|ZeroDivisionError"
    r"|OverflowError|FloatingPointError|ArithmeticError|FileNotFoundError|FileExistsError"
    r"|PermissionError|IsADirectoryError|NotADirectoryError|MemoryError|SyntaxError"
    r"|IndentationError|TabError|NotImplementedError|RecursionError|UnicodeDecodeError"
    r"|UnicodeEncodeError|JSONDecodeError|StopIteration)$"
)
"""Types that only the script, its files or its data cause. A wrong guess would end a job that the
cluster could recover, so all others are open."""
_OF_SCRIPT = re.compile(
    r"size mismatch|shapes? |must match|expected .*(?: got | found )|loading state_dict"
    r"|does not require grad|modified by an inplace operation"
    r"|^OSError: \[Errno (?:2|13|28|30|122)\]",
    re.IGNORECASE,
)
"""Words of failures that torch and the operating system put into types of all kinds."""
_OF_DEVICE = re.compile(
    r"\bNPU\b|HCCL|\bACL\b|\bacl|\bAscend|\bERR\d{5}|\bCANN\b|\bGE\b|NCCL|gloo|c10d"
    r"|\bstore\b|TCPStore",
    re.ASCII,
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|std::bad_alloc|Malloc device memory failed|Cannot allocate memory"
    r"|DataLoader worker .* is killed by signal",
    re.IGNORECASE,
)
_BAD_END = re.compile(r"instance of 'std::bad_alloc'|^MemoryError\b|\b(?:NPU|CUDA) out of memory")
_WARNING = re.compile(r"\[W\d*[ \]]|\[WARNING\]|\bWARN(?:ING)?\b|Warning:")
_LAST_LINES = 40


def _without_warnings(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines; torch warns of connections that it then makes in another way."""
    return tuple(line for line in lines[-_LAST_LINES:] if not _WARNING.search(line))


def _is_of_script(raised: Raised) -> bool:
    if any(map(_OUT_OF_MEMORY.search, raised.text)):
        return True
    of_device = any(map(_OF_DEVICE.search, raised.text))
    return not of_device and any(map(_OF_SCRIPT.search, raised.text))
