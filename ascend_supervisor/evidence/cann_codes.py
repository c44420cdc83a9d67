"""CANN's error codes: which one an output names, what it means, and where its cause is; pure.

Codes, texts and remedies are those of Huawei's "Error Code Reference" (CANN 5.0 to 9.1; installed
as ``runtime/conf/error_manager/error_code.json``), of HCCL's chapters on faults, and of the sources
of hcomm and runtime that CANN has published. A code is E, a letter or digit for the module, and
four digits: from 0000 mistakes of the user, from 9000 failures inside CANN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ascend_supervisor.evidence import acl_codes

CONSEQUENCES = {
    "EI0002": "a collective waited in vain for another rank (the limit is HCCL_EXEC_TIMEOUT)",
    "EI0006": "HCCL got no connection to another rank (the limit is HCCL_CONNECT_TIMEOUT)",
    "EI0009": "HCCL could not set up the link to another rank's device",
    "EI0012": "copying from another rank's device failed",
    "EI0013": "another rank's device no longer answered over RoCE (an error CQE)",
    "EI0015": "HCCL could not gather all ranks (the limit is HCCL_CONNECT_TIMEOUT)",
    "EI0018": "another rank's device no longer answered over UB (an error CQE)",
}
"""The cause is another rank, or the network between the two."""

CAUSES = {
    "EI0001": "HCCL refused an environment variable; correct the one that is named after the code",
    "EI0003": "a collective was called with a wrong argument; look at the script",
    "EI0004": "HCCL refused the rank table; see ascend-supervisorctl check-table",
    "EI0007": "HCCL lacks memory or notify registers of the device; lower what the rank holds",
    "EI0011": "the memory of the NPU is used up; lower the batch, or end what else holds it",
    "EI0014": "the rank table does not fit the devices of this server; see "
    "ascend-supervisorctl check-table, and compare device_id and device_ip with hccn_tool",
    "EI0016": "HCCL refused a value of its configuration; correct the one that is named",
    "EI0017": "the rank table lacks a key; see ascend-supervisorctl check-table",
    "EI0019": "HCCL's port on the host is taken; end the process that holds it, or set "
    "HCCL_IF_BASE_PORT",
    "EI0020": "HCCL's port on the NPU is taken; end the process that holds it, or set "
    "HCCL_NPU_SOCKET_PORT_RANGE",
    "EJ0001": "an earlier process still holds the device; allow 10 s after its end "
    "(--release-delay), and look for processes on /dev/davinci*",
    "EJ0002": "the network port of this server's NPU is down; look at hccn_tool -link -g",
    "EJ0003": "HCCL's address or port is taken on this server; end the process that holds it",
    "EJ0004": "HCCL refused an address of the rank table; see ascend-supervisorctl check-table",
    "EL0001": "the NPU is missing or faulty; look at npu-smi info on this server",
    "EL0002": "there is no NPU with this number; look at ASCEND_RT_VISIBLE_DEVICES",
    "EL0004": "the memory of the NPU or of the host is used up; lower the batch, or end what else "
    "holds it",
    "EL0005": "the NPU is held by another process, or is being reset; look for processes on "
    "/dev/davinci*",
    "EL0006": "the resources of the NPU are used up; end what else holds it",
    "EL0007": "the NPU may not be used by this user, or is held by another process; look at the "
    "owner of /dev/davinci*",
    "EL0008": "the events of the NPU are used up; end what else holds it",
    "EL0009": "the streams of the NPU are used up; end what else holds it",
    "EL0010": "the notify registers of the NPU are used up; end what else holds it",
    "EL0015": "the NPU is bound to another container; look at which containers mount it",
    "E30003": "an earlier job still has processes on the NPU; allow 10 s after its end "
    "(--release-delay)",
    "E30004": "a program on the NPU is damaged, often by a memory error; look at its health with "
    "npu-smi info",
    "E30005": "the NPU does not answer any more; look at npu-smi info, the device must be reset",
}
"""The cause is this rank, its settings or a device of this server."""

UNCLEAR = {
    "EI0005": "the ranks called a collective with different arguments; compare the scripts and the "
    "data of all ranks",
    "EI0008": "the servers have different versions of HCCL; install the same CANN on all of them",
    "EI0010": "two devices of this server cannot reach each other's memory; look at npu-smi info",
    "EE1002": "a stream did not finish in time; look at the first error among all ranks, it may "
    "wait for one of them",
    "EZ2001": "an operator failed on the NPU; look at the first [ERROR] in the rank's plog",
    "E30008": "an operator did not finish in time on the NPU's CPU; look at its input in the "
    "rank's plog",
}
"""Either may be true."""

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
_SPOKEN = re.compile(rf"(?<![\w.])({_CODE})(?=:|\)|\[PID)")
_LOGGED = re.compile(rf"(?<![A-Za-z0-9])({_CODE})(?![A-Za-z0-9])")
_STAMP = r"(?: *\[PID: *\d+\])?(?: *\d{4}-\d\d-\d\d-[\d:.]+)? *"
_SIGNS = (
    ("EI0006", re.compile(r"wait socket establish timeout|LINK_ERROR_INFO")),
    ("EI0002", re.compile(r"\[TaskExecStage\]\[Timeout\]|notify wait time ?out", re.IGNORECASE)),
    ("EI0013", re.compile(r"error cqe", re.IGNORECASE)),
    ("EL0004", re.compile(r"halMemAlloc failed|Heap_alloc_managed out of memory")),
)
"""Lines of a plog that mean a code without naming it."""


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
    if code.isdecimal():
        return acl_codes.meaning_of(code)
    told = CONSEQUENCES.get(code) or CAUSES.get(code) or UNCLEAR.get(code)
    return told or _of_module(code, lines)


def name_of(code: str, lines: Iterable[str] = ()) -> str:
    """The code for people, with what torch_npu says of it."""
    name = f"CANN's return code {code}" if code.isdecimal() else code
    said = acl_codes.said_of_error(lines)
    return f"{name} ({said})" if said else name


def is_consequence(code: str | None) -> bool:
    """Whether its cause is another rank, or the network between the two."""
    return code in CONSEQUENCES or code in acl_codes.CONSEQUENCES


def is_cause(code: str | None) -> bool:
    """Whether its cause is this rank, its settings or a device of this server."""
    return code in CAUSES or code in acl_codes.CAUSES


def is_inner(code: str) -> bool:
    """Whether it only says that something failed inside CANN."""
    return acl_codes.is_generic(code) if code.isdecimal() else int(code[2:]) >= _INSIDE


def _silence(code: str) -> int:
    """How little a code tells."""
    if code.isdecimal():
        return 4 if acl_codes.is_generic(code) else 1
    if is_inner(code):
        return 5 if code[1] in _WHO_CALLS else 3
    return 0 if code in CONSEQUENCES | CAUSES | UNCLEAR else 2


def _telling(codes: Iterable[str]) -> str | None:
    inner = None
    for code in codes:
        if not is_inner(code):
            return code
        inner = inner or code
    return inner


def _codes_of(line: str) -> Iterable[str]:
    yield from _LOGGED.findall(line)
    yield from (code for code, sign in _SIGNS if sign.search(line))


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
