"""Whether the environment turns on process-level recovery, and who acts on faults then; pure.

It keeps the ranks that are left: they pause, are repaired, and go on. Whoever ends them meanwhile
undoes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ascend_supervisor.untrusted_text import shown

OFF = frozenset({"", "0", "false", "no", "off", "none", "{}"})
"""What turns off a switch of MindCluster or MindIO; anything else may turn it on."""

_SWITCHES: Mapping[str, str] = {
    "PROCESS_RECOVER": "ClusterD, TaskD and MindIO",
    "ELASTIC_PROCESS_RECOVER_ENABLE": "ClusterD, TaskD and MindIO",
    "ENABLE_RESTART_FAULT_PROCESS": "ClusterD and TaskD",
}
_LISTS: Mapping[str, str] = {
    "HIGH_AVAILABILITY": "MindIO",  # dump,recover,retry; for PyTorch
    "MS_ENABLE_TFT": "MindIO",  # {TTP:1,UCE:1,ARF:0}; for MindSpore
}
PROCESS_RECOVERY = (*_SWITCHES, *_LISTS)
_LEFT_TO_US = frozenset({"dump", "ttp", "exit", "rsc"})
"""Words that keep no rank: a last checkpoint, the end of the job, pod-level rescheduling."""
_WITHOUT_CHECKPOINT = frozenset({"exit", "rsc"})
_QUOTES = re.compile(r"[\"']")
_COLON = re.compile(r"\s*[:=]\s*")
_BETWEEN = re.compile(r"[\s,;{}()\[\]]+")


class Actor(Struct, frozen=True):
    """``variable`` has this ``value``; therefore ``who`` acts on a fault."""

    variable: str
    value: str
    who: str

    def __str__(self) -> str:
        return f"{self.variable}={shown(self.value)}, by {self.who}"


def other_actors(environ: Mapping[str, str]) -> tuple[Actor, ...]:
    """Who acts on faults in place of the scheduler, by each variable that says so."""
    return tuple(_actors(environ))


def writes_last_checkpoint(variable: str, value: str) -> bool:
    """Whether ranks may write a last checkpoint after a failure, as this variable says."""
    if variable in _LISTS:
        return bool(set(_words_on(value)) - _WITHOUT_CHECKPOINT)
    return value.strip().lower() not in OFF


def _actors(environ: Mapping[str, str]) -> Iterator[Actor]:
    for variable, who in _SWITCHES.items():
        value = environ.get(variable, "")
        if value.strip().lower() not in OFF:
            yield Actor(variable, value, who)
    for variable, who in _LISTS.items():
        value = environ.get(variable, "")
        if set(_words_on(value)) - _LEFT_TO_US:
            yield Actor(variable, value, who)


def _words_on(text: str) -> Iterator[str]:
    """The words of a list that are not off; TTP:1, "ttp" : 1 and ttp are the same."""
    even = _COLON.sub(":", _QUOTES.sub("", text.lower()))
    for item in filter(None, _BETWEEN.split(even)):
        word, colon, value = item.partition(":")
        if (value if colon else word) not in OFF:
            yield word
