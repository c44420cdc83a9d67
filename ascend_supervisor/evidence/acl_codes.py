"""The return codes of CANN's API (aclError), which torch_npu prints; pure.

Numbers and meanings are those of Huawei's list of aclError, and of runtime's ``rt_error_codes.h``:
1xxxxx a mistake of the caller, 2xxxxx a lack of something, 5xxxxx a failure inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLOG = "look at the first [ERROR] in the rank's plog"
_SCRIPT = "look at the script, and at the first [ERROR] in the rank's plog"
_OPERATOR = "look at the operator and its input in the rank's plog"
_HEALTH = "look at npu-smi info, the device must be repaired or reset"

CONSEQUENCES = {
    "507055": "the memory of another rank's device may have failed",
    "507056": "the link to another rank's device broke",
    "507057": "the memory of another rank's device may have failed, or this rank left its own",
    "507904": "HCCL tried a collective again, in vain",
}
"""The cause is another rank's device, or the network between the two."""

CAUSES = {
    "107001": "there is no NPU with this number; look at ASCEND_RT_VISIBLE_DEVICES",
    "200000": "memory is used up; lower the batch, or end what else holds it",
    "207001": "memory could not be allocated; lower the batch, or end what else holds it",
    "207006": "this user may not do this; look at the owner of /dev/davinci*",
    "207018": "the memory of the NPU is used up; lower the batch, or end what else holds it",
    "300000": "the storage is used up; make room",
}
"""The cause is this rank, or its settings."""

UNCLEAR = {
    "107003": f"a stream was used outside its context; {_SCRIPT}",
    "107019": "a wait on the NPU timed out; look at the first error among all ranks",
    "107020": "a task on the NPU timed out, it may have waited for another rank; look at the first "
    "error among all ranks",
    "107022": "the tasks of the device were being dropped; look for who stopped it",
    "107023": "the tasks of the stream were being dropped; look for who stopped it",
    "148049": "the operator package (OPP) was not found; look at ASCEND_OPP_PATH",
    "161001": f"an operator got a null pointer; {_OPERATOR}",
    "161002": f"an operator got a wrong argument; {_OPERATOR}",
    "207003": f"an operator overflowed on the AI Core; {_OPERATOR}",
    "207004": "the NPU is not available; look at npu-smi info and ASCEND_RT_VISIBLE_DEVICES",
    "207005": f"a resource of the NPU is used up; {_PLOG}",
    "207007": "the events of the NPU are used up; end what else holds it",
    "207008": "the streams of the NPU are used up; end what else holds it",
    "207009": "the notify registers of the NPU are used up; end what else holds it",
    "207010": "the models of the NPU are used up; end what else holds it",
    "207016": f"an operator overflowed on the vector core; {_OPERATOR}",
    "207017": f"an operator overflowed; {_OPERATOR}",
    "507001": f"the task scheduler on the NPU failed; {_PLOG}",
    "507008": "the type of the NPU could not be read; look at npu-smi info and the driver",
    "507010": f"the NPU's task scheduler lost its heartbeat; {_HEALTH}",
    "507011": f"a model failed on the NPU; {_PLOG}",
    "507012": f"the NPU's task scheduler did not report in time; {_PLOG}",
    "507013": f"copying by the NPU's DMA failed; {_PLOG}",
    "507014": f"an operator did not finish in time on the AI Core; {_OPERATOR}",
    "507015": f"an operator failed on the AI Core; {_OPERATOR}",
    "507016": f"an operator trapped on the AI Core; {_OPERATOR}",
    "507017": f"an operator did not finish in time on the AI CPU; {_OPERATOR}",
    "507018": f"an operator failed on the AI CPU; {_OPERATOR}",
    "507033": "the NPU could not be started: it may be held by another process, or be faulty; look "
    "for processes on /dev/davinci*, and at npu-smi info",
    "507034": f"an operator did not finish in time on the vector core; {_OPERATOR}",
    "507035": f"an operator failed on the vector core; {_OPERATOR}",
    "507036": f"an operator trapped on the vector core; {_OPERATOR}",
    "507042": f"an operator read beyond its memory on the AI Core; {_OPERATOR}",
    "507043": f"an operator wrote beyond its memory on the AI Core; {_OPERATOR}",
    "507044": f"an operator read beyond its memory on the vector core; {_OPERATOR}",
    "507045": f"an operator wrote beyond its memory on the vector core; {_OPERATOR}",
    "507046": "a stream did not finish in time, it may have waited for another rank; look at the "
    "first error among all ranks",
    "507047": "an event did not come in time, it may have waited for another rank; look at the "
    "first error among all ranks",
    "507048": "a task (FFTS+) did not finish in time, it may have waited for another rank; look at "
    "the first error among all ranks",
    "507049": f"a task (FFTS+) failed; {_OPERATOR}",
    "507050": f"a task (FFTS+) trapped; {_OPERATOR}",
    "507053": f"the memory of this NPU has an uncorrectable error (UCE); {_HEALTH}",
    "507054": f"the HBM of this NPU has an ECC error of several bits; {_HEALTH}",
    "507901": f"the connection between host and NPU (HDC) broke; {_HEALTH}",
    "561002": f"the shape of an operator's output could not be told; {_OPERATOR}",
    "561003": "an operator has no kernel for this NPU; look at the installed kernels of CANN",
    "561103": f"an operator found a null pointer; {_OPERATOR}",
}
"""It says what failed, and not for certain whose fault it is. A device that has failed is one: the
cluster may recover it."""

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
_CODE = re.compile(
    r"(?:error ?code|runtime result|\breturn|\bret(?:code)?|\bfailed)(?: is)?[:=]? ?=? ?"
    r"([1-57]\d{5})(?!\d)",
    re.IGNORECASE | re.ASCII,
)
_SAID = re.compile(r"\[Error\]: ?(\S.{0,200})")


def acl_codes(lines: Iterable[str]) -> list[str]:
    """The codes that these lines name, such as ``error code is 507015``, in their order."""
    found = (code for line in lines for code in _CODE.findall(line))
    return [code for code in found if code[1:3] in _MODULES]


def is_generic(code: str) -> bool:
    """Whether the code says only that something has failed."""
    return code in GENERIC or code not in (CONSEQUENCES | CAUSES | UNCLEAR)


def meaning_of(code: str) -> str:
    """What the code means and where to look, in half a sentence."""
    told = CONSEQUENCES.get(code) or CAUSES.get(code) or UNCLEAR.get(code)
    return told or f"{_MODULES.get(code[1:3], 'CANN')} {_KINDS.get(code[0], 'failed')}; {_PLOG}"


def said_of_error(lines: Iterable[str]) -> str:
    """What torch_npu says of a code, such as ``The aicore execution is abnormal``; may be empty."""
    found = next(filter(None, map(_SAID.search, lines)), None)
    return "" if found is None else found[1].strip().rstrip(".")
