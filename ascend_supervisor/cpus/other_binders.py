"""Who else binds the ranks to CPUs, as far as variables and words show it; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

TORCH_NPU = "CPU_AFFINITY_CONF"
_OFF = frozenset({"", "0", "mode:0", "false", "none"})
_OPTION = re.compile(r"--(bind[-_]core|numa[-_]binding)(?:=(.*))?", re.DOTALL)
"""msrun's, whose value may be a word, and torchrun's."""
_PROGRAM = re.compile(r"(?:^|[\s;&|(/'\"])(taskset|numactl)(?=\s|$)")


def other_binder(argv: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Half a sentence: what binds the ranks already; None if nothing does, as far as we see."""
    mode = environ.get(TORCH_NPU, "").partition(",")[0].strip().lower()
    if mode not in _OFF:
        return f"{TORCH_NPU} is set, and torch_npu binds by it"
    for number, word in enumerate(argv):
        if found := _OPTION.fullmatch(word):
            following = argv[number + 1] if number + 1 < len(argv) else ""
            value = following if found[2] is None else found[2]
            if value.strip().lower() not in _OFF:
                return f"the launcher binds by {word.partition('=')[0]}"
        if program := _PROGRAM.search(word):
            return f"the command calls {program[1]}"
    return None
