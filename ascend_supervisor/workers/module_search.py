"""Whether the Python of a rank finds its module (``python -m``), asked of that Python itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.errors import CommandNotFound
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.settings.command_words import interpreter_of, module_of
from ascend_supervisor.untrusted_text import plain

ANSWER_SECONDS = 10.0
_MISSING = "ascend-supervisor finds no module"
# Finders are asked; no module is imported. A package that changes where its modules come from is
# not understood, which raises an exception or is no answer.
_SEARCH = """
import glob, os, sys
name, missing, cwd = sys.argv[1:]
sys.path[:] = [cwd if entry in ("", os.getcwd()) else entry for entry in sys.path]

def found(name, places):
    for finder in sys.meta_path:
        spec = finder.find_spec(name, places)
        if spec is not None:
            return spec

def is_plain(spec):
    files = [] if spec.origin in (None, "namespace") else [spec.origin]
    for place in spec.submodule_search_locations or ():
        if not os.path.isdir(place):
            return False
        files += glob.glob(os.path.join(glob.escape(place), "*.py"))
    for file in files:
        if not file.endswith(".py"):
            return False
        with open(file, "rb") as source:
            text = source.read()
        if any(word in text for word in (b"__path__", b"sys.modules", b"meta_path")):
            return False
    return True

def search():
    places, parts, at = None, name.split("."), 0
    while at < len(parts):
        part = ".".join(parts[: at + 1])
        spec = None if at and places is None else found(part, places)
        if spec is None:
            return part
        if part in sys.modules or part in sys.builtin_module_names:
            return None
        places, at = spec.submodule_search_locations, at + 1
        is_last = at == len(parts)
        if is_last and places is None or not is_plain(spec):
            return None
        if is_last and parts[-1] != "__main__":
            parts.append("__main__")

lacking = search()
if lacking:
    print(missing, lacking, flush=True)
"""


def check_finds_module(spec: ProcessSpec, environ: Mapping[str, str]) -> None:
    """Raise CommandNotFound if the Python of a rank says that it finds no such module.

    It is started in the rank's environment, and imports nothing of the user's but what each start
    of Python does (``.pth``, sitecustomize). Where it gives no answer, nothing is raised.

    It waits for a process itself, so it is for a plan, in which nobody else does.
    """
    is_direct = interpreter_of(spec.argv) == spec.argv[0]
    module = module_of(spec.argv) if is_direct else None
    options = None if module is None else _options_before(spec.argv, module)
    if module is None or options is None:
        return
    is_there = os.path.isdir(spec.cwd)  # noqa: PTH112
    searched = environ.get("PYTHONPATH", "")
    if not is_there and searched and not all(one[:1] == "/" for one in searched.split(":")):
        return
    cwd = str(spec.cwd) if is_there else "/"
    command = (spec.argv[0], *options, "-c", _SEARCH, module, _MISSING, str(spec.cwd))
    lines: list[str] = []
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        answer = subprocess.run(
            command,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=True,
        )
        lines = answer.stdout.decode(errors="replace").splitlines()
    for line in lines:
        if line.startswith(_MISSING):
            lacking = plain(line.removeprefix(_MISSING).strip())
            raise CommandNotFound(
                f"{spec.name} starts in {spec.cwd}, where its Python finds no module {lacking} "
                f"(python -m {plain(module)})"
            )


def _options_before(argv: Sequence[str], module: str) -> tuple[str, ...] | None:
    """The options of Python before ``-m``; None if the module is not a word of its own."""
    if module not in argv:
        return None
    *options, last = argv[1 : argv.index(module)] or ("",)
    if not last.endswith("m"):
        return None
    return (*options, last[:-1]) if len(last) > len("-m") else tuple(options)
