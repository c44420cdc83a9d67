"""The return codes of CANN's API (aclError), which torch_npu prints; pure.

Numbers and meanings are those of Huawei's list of aclError, and of runtime's ``rt_error_codes.h``:
1xxxxx a mistake of the caller, 2xxxxx a lack of something, 5xxxxx a failure inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ascend_supervisor.causes.table import CAUSES
from ascend_supervisor.evidence.patterns import pattern

_PLOG = "look at the first [ERROR] in the rank's plog"
GENERIC = frozenset(
    {
        *("100000", "107000", "107002", "107017", "145000", "161000", "361001"),
        *("500000", "500001", "500002", "500003", "500004", "500005"),
        *("507000", "507899", "507900", "545000", "561000", "561001", "574006"),
    }
)
"""They say no more than that a module has failed, or was called wrongly."""

_MODULES = {
    "00": "CANN's API (ACL)",
    "07": "CANN's runtime",
    "45": "CANN's graph engine",
    "48": "CANN's API (ACL)",
    "61": "an operator (aclnn)",
    "74": "an operator (aclnn)",
}
_KINDS = {"1": "refused what it was asked for", "2": "lacks what it was asked for"}
_CODE = pattern(
    r"(?:error ?code|runtime result|\breturn|\bret(?:code)?|\bfailed)(?: is)?[:=]? ?=? ?"
    r"([1-57]\d{5})(?!\d)",
    re.IGNORECASE | re.ASCII,
)
_SAID = pattern(r"\[Error\]: ?(\S.{0,200})")


def acl_codes(lines: Iterable[str]) -> list[str]:
    """The codes that these lines name, such as ``error code is 507015``, in their order."""
    found = (code for line in lines for code in _CODE.findall(line))
    return [code for code in found if code[1:3] in _MODULES]


def is_generic(code: str) -> bool:
    """Whether the code says only that something has failed."""
    return code in GENERIC or code not in CAUSES


def of_module(code: str) -> str:
    """Which part of CANN prints it, and where to look, in half a sentence."""
    return f"{_MODULES.get(code[1:3], 'CANN')} {_KINDS.get(code[0], 'failed')}; {_PLOG}"


def said_of_error(lines: Iterable[str]) -> str:
    """What torch_npu says of a code, such as ``The aicore execution is abnormal``; may be empty."""
    found = next(filter(None, map(_SAID.search, lines)), None)
    return "" if found is None else found[1].strip().rstrip(".")
