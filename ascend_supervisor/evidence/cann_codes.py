"""CANN's error codes: which one an output names, what it means, and where its cause is; pure.

Codes, texts and remedies are those of Huawei's "Error Code Reference" (CANN 5.0 to 9.1; installed
as ``runtime/conf/error_manager/error_code.json``), of HCCL's chapters on faults, and of the sources
of hcomm and runtime that CANN has published. A code is E, a letter or digit for the module, and
four digits: from 0000 mistakes of the user, from 9000 failures inside CANN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ascend_supervisor.causes.cause import Blame
from ascend_supervisor.causes.scan import matches
from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence import acl_codes
from ascend_supervisor.evidence.patterns import pattern

MODULES = {
    "1": "CANN's graph engine",
    "2": "CANN's fusion engine",
    "3": "CANN's AI CPU",
    "4": "CANN's operator compiler",
    "E": "CANN's runtime",
    "H": "CANN's API (ACL)",
    "I": "HCCL",
    "J": "HCCP, HCCL's process on the NPU,",
    "K": "CANN's profiling",
    "L": "the driver of the NPU",
    "Z": "an operator",
}
_WHO_CALLS = "EH"
"""The runtime and the API: a failure inside them is that of what they have called."""
_INSIDE = 9000
"""From here on a code means a failure inside CANN, and says nothing more."""

_CODE = "E[1-4EHIJKLZ][0-9]{4}"
_SPOKEN = pattern(rf"(?<![\w.])({_CODE})(?=:|\)|\[PID)")
_LOGGED = pattern(rf"(?<![A-Za-z0-9])({_CODE})(?![A-Za-z0-9])")
_STAMP = r"(?: *\[PID: *\d+\])?(?: *\d{4}-\d\d-\d\d-[\d:.]+)? *"
_SIGNED = [row for row in CAUSES.values() if row.signs and re.fullmatch(_CODE, row.id)]
"""The codes that lines of a plog may mean without naming them."""


def spoken_code(lines: Iterable[str]) -> str | None:
    """The most telling code that CANN has printed, the first of its kind.

    ``EI0006: ...`` or, in newer releases, ``(EI0006)``; or a return code, such as 507015. One that
    says what has failed comes before one of a failure inside CANN.
    """
    lines = tuple(lines)
    codes = [code for line in lines for code in _SPOKEN.findall(line)]
    return min([*codes, *acl_codes.acl_codes(lines)], key=_silence, default=None)


def logged_code(lines: Iterable[str]) -> str | None:
    """The first code in lines of a plog, as its number or by the words for it.

    The first error is the one to look at: what follows are its consequences.
    """
    return _telling(code for line in lines for code in _codes_of(line))


def meaning_of(code: str, lines: Iterable[str] = ()) -> str:
    """What the code means and where to look, in half a sentence; ``lines`` may say more of it."""
    row = CAUSES.get(code)
    if row is not None:
        return row.text if row.blame is Blame.CONSEQUENCE else f"{row.text}; {row.remedy}"
    return acl_codes.of_module(code) if code.isdecimal() else _of_module(code, lines)


def name_of(code: str, lines: Iterable[str] = ()) -> str:
    """The code for people, with what torch_npu says of it."""
    name = f"CANN's return code {code}" if code.isdecimal() else code
    said = acl_codes.said_of_error(lines)
    return f"{name} ({said})" if said else name


def is_consequence(code: str | None) -> bool:
    """Whether its cause is another rank, or the network between the two."""
    return _blame(code) is Blame.CONSEQUENCE


def is_cause(code: str | None) -> bool:
    """Whether its cause is this rank, its settings or a device of this server."""
    return _blame(code) is Blame.OWN


def is_inner(code: str) -> bool:
    """Whether it only says that something failed inside CANN."""
    return acl_codes.is_generic(code) if code.isdecimal() else int(code[2:]) >= _INSIDE


def _blame(code: str | None) -> Blame:
    row = None if code is None else CAUSES.get(code)
    return Blame.UNKNOWN if row is None else row.blame


def _silence(code: str) -> int:
    """How little a code tells."""
    if code.isdecimal():
        return 4 if acl_codes.is_generic(code) else 1
    if is_inner(code):
        return 5 if code[1] in _WHO_CALLS else 3
    return 0 if code in CAUSES else 2


def _telling(codes: Iterable[str]) -> str | None:
    inner = None
    for code in codes:
        if not is_inner(code):
            return code
        inner = inner or code
    return inner


def _codes_of(line: str) -> Iterable[str]:
    yield from _LOGGED.findall(line)
    yield from (match.cause.id for match in matches([line], "plog", _SIGNED))


def _of_module(code: str, lines: Iterable[str]) -> str:
    module = MODULES.get(code[1], "CANN")
    if is_inner(code):
        return f"{module} failed; look at the first [ERROR] in the rank's plog"
    message = re.compile(rf"(?<![\w.])\(?{code}\)?:{_STAMP}(\w.{{2,200}})")
    found = next(filter(None, map(message.search, lines)), None)
    refused = "refused what it was asked for" if found is None else f"says: {_sentence(found[1])}"
    return f"{module} {refused}; the rank's log says more after this code"


def _sentence(message: str) -> str:
    """The first sentence, without its full stop."""
    return message.partition(". ")[0].strip().rstrip(".")
