"""What a standby runs: a Python program of a rank, if it can be one; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.settings.command_words import PythonProgram, profiler_of, python_program

AT_EXEC = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH", "PYTHON", "ASCEND_", "LC_", "CONDA_")
"""How variables begin that the interpreter, or a library that is imported, reads once."""
ALSO_AT_EXEC = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV"})


def warm_program(spec: ProcessSpec) -> PythonProgram | str:
    """The program of a rank that can wait as a standby, or half a sentence: why there is none."""
    if spec.rank is None or spec.workers or spec.own_words or spec.descriptors:
        return f"{spec.name} is not a rank that the supervisor starts itself"
    found = python_program(spec.argv)
    if found is None:
        return "COMMAND does not begin with python and a script or a module (-m)"
    if profiler := profiler_of(found):
        return f"{profiler} runs the script, and must see its imports"
    return found


def read_too_early(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that a standby has read ``before``, and that are others ``now``."""
    others = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return tuple(sorted(filter(_is_read_early, others)))


def _is_read_early(name: str) -> bool:
    return name.startswith(AT_EXEC) or name in ALSO_AT_EXEC
