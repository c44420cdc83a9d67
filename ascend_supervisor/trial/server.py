"""What this server has for a trial: NPUs that nobody uses, and a framework that adds up on them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.imports import HOME
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holders
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.trial.summary import Setting

RANK_PROGRAM = Path(HOME, "ascend_supervisor", "programs", "trial_rank.py")
MOST_RANKS, USUAL_RANKS = 16, 8
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
ASK_SECONDS = 30.0
MOST_BYTES = 64 * 1024
SAYS_NOTHING = "nothing here says anything about NPUs"
WITH_NPUS = ("torch_npu", "mindspore")


def setting_here(
    ranks: int | None,
    python: str | None,
    environ: Mapping[str, str],
    npus: tuple[str, ...],
    supervisors: Callable[[], Iterable[int]],
) -> Setting:
    """What a trial runs with here; raises Unavailable if the NPUs are in use, SettingsRefused.

    ``npus`` are the files of those that are here. ``supervisors`` gives the processes of
    supervisors that run here: their ranks need the NPUs.
    """
    if npus:
        _refuse_if_in_use(npus, supervisors())
    program, versions = _interpreter(python, environ)
    kind = _kind(versions, has_npus=bool(npus))
    visible = len(environ[VISIBLE].split(",")) if environ.get(VISIBLE) else MOST_RANKS
    cpus = len(os.sched_getaffinity(0))
    usual = min(len(npus), visible, MOST_RANKS) if npus else max(2, min(cpus, USUAL_RANKS))
    return Setting(npus, ranks or usual, kind, program, versions, _remark(npus, kind, program))


def _refuse_if_in_use(found: tuple[str, ...], supervisors: Iterable[int]) -> None:
    for held in holders(frozenset(found)):
        raise Unavailable(f"an NPU is in use by process {held}; end it before the trial")
    for pid in supervisors:
        raise Unavailable(
            f"a supervisor runs here, whose ranks need the NPUs: process "
            f"{proc.description(pid)}; end it before the trial"
        )


def _interpreter(python: str | None, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The first that has a framework, or the first, and the versions of what it has."""
    words = [python] if python else ["python3", sys.executable]
    here = [shutil.which(word, path=environ.get("PATH")) for word in words]
    programs = [str(Path(one).absolute()) for one in here if one]
    known = [(program, told) for program in programs if (told := _versions(program, environ))]
    if not known:
        found = " and ".join(words)
        raise SettingsRefused(f"expected a Python that starts, found none: {found}; see --python")
    return next((one for one in known if len(one[1]) > 1), known[0])


def _versions(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Empty if that is no Python which starts."""
    said = output_of((program, str(RANK_PROGRAM), "versions"), ASK_SECONDS, MOST_BYTES, environ)
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(said.text.splitlines()[-1] if said.text else b"")
        return {str(name): str(version) for name, version in found.items()}
    return {}


def _kind(versions: Mapping[str, str], *, has_npus: bool) -> str:
    """In which way the ranks add up."""
    if has_npus:
        return next((name for name in WITH_NPUS if name in versions), "plain")
    if "torch" in versions:
        return "gloo"
    return "mindspore_cpu" if "mindspore" in versions else "plain"


def _remark(found: tuple[str, ...], kind: str, program: str) -> str:
    if kind in WITH_NPUS:
        return ""
    if found:
        return f"{program} has neither torch_npu nor MindSpore: ran without them; {SAYS_NOTHING}"
    return f"no NPU here: ran with {' '.join(_described(kind))}; {SAYS_NOTHING}"


def _described(kind: str) -> Iterator[str]:
    yield {"gloo": "gloo", "mindspore_cpu": "MindSpore on the CPU"}.get(kind, "plain Python")
    if kind == "plain":
        yield "over sockets, because there is neither PyTorch nor MindSpore"
