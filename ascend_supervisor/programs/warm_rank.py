"""Imports what a script imports, waits for the word, and runs the script; a program of its own.

    python [OPTIONS] warm_rank.py FD SCRIPT

It runs in the user's interpreter (3.7 and later) and imports nothing of ours. The top-level imports
of SCRIPT that lie in site-packages are made at once; the script's own modules are left to it. Then
it reads the word from FD to its end: JSON with environ, argv and cwd, where argv[0] is the script.
An end without a word ends it.
"""

from __future__ import annotations

import array
import ast
import builtins
import importlib
import importlib.machinery
import json
import os
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any


def top_imports(path: str) -> list[str]:
    """Names of the modules that the file imports at its top, in order; none if unreadable."""
    try:
        body = ast.parse(Path(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def is_installed(name: str, folder: str) -> bool:
    """Whether the module is found in site-packages and the script's folder has none of the name."""
    top = name.partition(".")[0]
    if importlib.machinery.PathFinder.find_spec(top, [folder]):
        return False
    spec = importlib.machinery.PathFinder.find_spec(top)
    places = [spec.origin or "", *(spec.submodule_search_locations or ())] if spec else []
    return any("site-packages" in place or "dist-packages" in place for place in places)


def folder_of(script: str) -> str:
    """What the interpreter puts first on sys.path for the script."""
    return os.path.dirname(os.path.realpath(script))  # noqa: PTH120 - as the interpreter does it


def warm(script: str) -> None:
    """Make the imports; one that fails is left to the script, which tells it as it would cold."""
    folder = folder_of(script)
    for name in top_imports(script):
        if is_installed(name, folder):
            try_import(name)


def try_import(name: str) -> None:
    """One that fails is left to the script."""
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001, S110 - the script meets it again
        pass


def take(word: dict[str, Any]) -> None:
    """Become the process of the word: its directory, environment and arguments."""
    os.chdir(word["cwd"])
    for name in set(os.environ) - set(word["environ"]):
        del os.environ[name]
    os.environ.update(word["environ"])
    sys.argv[:] = word["argv"]
    sys.path[0] = folder_of(sys.argv[0])


def fresh_main(script: str) -> types.ModuleType:
    """A new __main__ as the interpreter makes it for a script."""
    main = types.ModuleType("__main__")
    main.__file__ = script
    vars(main)["__builtins__"] = builtins
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
    main.__annotations__ = {}
    if hasattr(sys.modules["__main__"], "__cached__"):
        vars(main)["__cached__"] = None
    sys.modules["__main__"] = main
    return main


def run(script: str) -> None:
    """Run the script; what it raises is told without our frames."""
    main = fresh_main(script)
    try:
        code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
        exec(code, main.__dict__)  # noqa: S102 - the user's own script
    except SystemExit:
        raise
    except BaseException as error:
        traceback = error.__traceback__
        hide_our_frames(traceback.tb_next if traceback else None)
        raise


def hide_our_frames(frames: types.TracebackType | None) -> None:
    """Have the interpreter tell the exception with these frames; the exit status stays its own."""
    told = sys.excepthook

    def tell(
        kind: type[BaseException], error: BaseException, _: types.TracebackType | None
    ) -> None:
        sys.excepthook = told
        told(kind, error.with_traceback(frames), frames)

    sys.excepthook = tell


def receive(link: socket.socket) -> bytes:
    """The word; the output that comes with it takes the place of ours."""
    data, ancillary, _, _ = link.recvmsg(1, socket.CMSG_SPACE(8))
    numbers = array.array("i")
    for _, _, content in ancillary:
        numbers.frombytes(content[:8])
    if not data or len(numbers) != 2:
        os._exit(0)
    output, word = numbers
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with open(word, "rb") as file:
        return file.read()


def start(number: int, words: list[str]) -> None:
    """Be warm before the word, and the script after it."""
    names = []
    while words[0] == "--import":
        names.append(words[1])
        del words[:2]
    sys.path.pop(0)
    began = time.monotonic()
    warm(words[0])
    for name in names:
        try_import(name)
    sys.path.insert(0, "")
    link = socket.socket(fileno=number)
    link.sendall(json.dumps({"warm": time.monotonic() - began}).encode() + b"\n")
    text = receive(link)
    link.close()
    take(json.loads(text.decode()))
    run(sys.argv[0])


if __name__ == "__main__":
    start(int(sys.argv[1]), sys.argv[2:])
