"""Imports what a script imports, waits for the word, and runs the script; a program of its own.

    python [OPTIONS] warm_rank.py FD [--import NAME]... SCRIPT [ARGUMENT]...
    python [OPTIONS] warm_rank.py FD [--import NAME]... -m MODULE [ARGUMENT]...

It runs in the user's interpreter (3.7 and later) and imports nothing of ours. The imports at the
top of the script are made at once, as far as warm_imports.py, beside this file, makes them.

Then it says so at FD, a socket, in a line of JSON, with ``refused`` (half a sentence) if it
would not be what the script is without it. To the byte QUESTION it answers with an empty object:
it is still there. The word is one byte with two descriptors: the output of the rank, and a file of
JSON with its environ, argv and cwd. The answer is a line of JSON with ``cold``: half a sentence if
the word no longer fits, and it starts cold. Else it runs the script as soon as a byte comes: what
it has said until then has been passed on. An end in place of the word, or of this byte, ends it.
"""

from __future__ import annotations

import array
import ast
import builtins
import importlib.machinery
import importlib.util
import json
import os
import runpy
import socket
import stat
import sys
import types
import warnings
from typing import Any, NamedTuple

ABSOLUTE = (3, 9)
"""From this version on a script has its whole path."""
HERE = os.path.abspath(__file__)
DESCRIPTORS = 2
QUESTION = b"?"


class Program(NamedTuple):
    """What is to run: ``words`` begin with a script, or with ``-m`` and a module."""

    words: list[str]

    @property
    def module(self) -> str | None:
        """The module after -m, if that is what runs."""
        return self.words[1] if self.words[0] == "-m" else None

    @property
    def script(self) -> str:
        """As the interpreter names it in __file__ and tracebacks; a path without -m."""
        word = self.words[0]
        return os.path.abspath(word) if sys.version_info >= ABSOLUTE else word

    @property
    def first_path(self) -> str | None:
        """What the interpreter puts first on sys.path; None: nothing (-I, -P)."""
        if self.module is None and is_package(self.script):
            return self.script
        if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
            return None
        if self.module is not None:
            return os.getcwd()
        return os.path.dirname(os.path.realpath(self.words[0]))

    @property
    def file(self) -> str | None:
        """Where its source is; None if it is not found."""
        if self.module is None:
            inside = os.path.join(self.script, "__main__.py")
            return inside if os.path.isdir(self.script) else self.script
        for name in (self.module + ".__main__", self.module):
            found = find(name)
            if found is not None and found.origin and found.origin.endswith(".py"):
                return found.origin
        return None

    @property
    def obstacle(self) -> str | None:
        """Why it can only be started by the interpreter itself."""
        if self.module is not None:
            return None
        script = self.words[0]
        try:
            if not stat.S_ISREG(os.stat(script).st_mode):
                return None if os.path.isdir(script) else f"{script} is no file"
            source = content(script)
        except OSError as error:
            return f"{script} cannot be read: {error.strerror}"
        if script.endswith(".pyc"):
            return f"{script} is compiled"
        if is_package(script):
            return None
        if not is_text(source):
            return f"{script} is not UTF-8"
        return None if is_program(source, script) else f"{script} has a syntax error"

    def pose(self) -> None:
        """Show the imports its arguments and its __main__, which it runs in later."""
        main = fresh_main()
        file = self.file
        if file is not None:
            main.__file__ = file
        sys.argv[:] = self.words if self.module is None else [file or "-m", *self.words[2:]]

    def run(self) -> None:
        """As the interpreter runs it; with what it raises."""
        sys.argv[:] = self.words if self.module is None else ["-m", *self.words[2:]]
        if self.module is not None:
            runpy._run_module_as_main(self.module)  # type: ignore[attr-defined]  # noqa: SLF001
        elif is_package(self.words[0]):
            runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]  # noqa: FBT003, SLF001
        else:
            main = sys.modules["__main__"]
            main.__loader__ = importlib.machinery.SourceFileLoader("__main__", self.script)
            code = compile(content(self.script), self.script, "exec", dont_inherit=True)
            exec(code, main.__dict__)  # noqa: S102  (the user's own script)


def find(name: str) -> importlib.machinery.ModuleSpec | None:
    """Where a module is, without importing the packages around it; None if that is unknown."""
    path: list[str] | None = None
    found = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        found = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), path)
        if found is None:
            return None
        path = list(found.submodule_search_locations or ())
    return found


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def is_text(source: bytes) -> bool:
    """Whether it is UTF-8, or says what else it is; the compiler would not ask."""
    try:
        source.decode()
    except UnicodeDecodeError:
        return any(b"coding" in line for line in source.splitlines()[:2])
    return True


def is_program(source: bytes, script: str) -> bool:
    """Whether it can be parsed; else the interpreter, which reads the file, tells another place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when the script is compiled
            compile(source, script, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def is_package(script: str) -> bool:
    """Whether the interpreter takes it for a directory or archive with a __main__."""
    if script.endswith(".py"):
        return os.path.isdir(script)
    import zipfile  # noqa: PLC0415  (seldom)

    return os.path.isdir(script) or zipfile.is_zipfile(script)


def warm(program: Program, names: list[str]) -> None:
    """Make the imports of the script, and of the modules ``names``."""
    path = os.path.join(os.path.dirname(HERE), "warm_imports.py")
    scope: dict[str, Any] = {"__name__": "warm_imports", "__file__": path}
    exec(compile(content(path), path, "exec"), scope)  # noqa: S102  (ours; sys.path may lack it)
    scope["make_imports"](program.file, names)


def own_module(program: Program) -> str | None:
    """A file beside the script that an installed package has imported; None if there is none.

    What stands there may read the rank, or be another by the time of the word.
    """
    first = program.first_path
    if first is None:
        return None
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if "." in name or not isinstance(path, str) or module is sys.modules["__main__"]:
            continue  # the last has several names: multiprocessing gives it one
        folder, file = os.path.split(path)
        if first == (os.path.dirname(folder) if file == "__init__.py" else folder):
            return path
    return None


def fresh_main() -> types.ModuleType:
    """A new __main__ as the interpreter makes it."""
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    main.__loader__ = importlib.machinery.BuiltinImporter
    for name in ("__annotations__", "__cached__"):
        if name in vars(sys.modules["__main__"]):
            vars(main)[name] = {} if name == "__annotations__" else None
    sys.modules["__main__"] = main
    return main


def say(link: socket.socket, **what: str | None) -> None:
    try:
        link.sendall(json.dumps(what).encode() + b"\n")
    except OSError:
        pass  # nobody hears us any more: no word comes


def receive(link: socket.socket) -> dict[str, Any]:
    """The word; the output that comes with it takes the place of ours. Ends without a word."""
    numbers = array.array("i")
    while True:
        data, ancillary, _, _ = link.recvmsg(1, socket.CMSG_SPACE(DESCRIPTORS * numbers.itemsize))
        if data != QUESTION:
            break
        say(link)
    for _, _, content in ancillary:
        numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    if not data or len(numbers) != DESCRIPTORS:
        os._exit(0)
    output, word = numbers
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    with open(word, "rb") as file:
        return dict(json.loads(file.read().decode()))


def started_with(what: str) -> list[str]:
    """The words (cmdline) or the environment (environ) that this process was started with."""
    with open(f"/proc/self/{what}", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def changes(before: dict[str, str]) -> dict[str, str | None]:
    """What the interpreter and the imports have set since, and what they took away (None)."""
    now = os.environ
    return {n: now.get(n) for n in {*before, *now} if now.get(n) != before.get(n)}


def misfit(before: Program, now: Program, cwd: str) -> str | None:
    """Why the word is for another process; None if it is for us."""
    named = 1 if before.module is None else 2
    if now.words[:named] != before.words[:named]:
        return "it was started for another program"
    try:
        if not os.path.samefile(cwd, os.curdir):
            return "it was started in another directory"
    except OSError as error:
        return f"{cwd} cannot be seen: {error.strerror}"
    return now.obstacle


def run(program: Program) -> None:
    """Run it; what it raises is told without our frames."""
    try:
        program.run()
    except SystemExit:
        raise
    except BaseException as error:
        hide_our_frames(error)
        raise


def hide_our_frames(error: BaseException) -> None:
    """Have the interpreter tell the exception without them; the exit status stays its own."""
    frames, told = error.__traceback__, sys.excepthook
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next

    def tell(kind: Any, error: BaseException, _: Any) -> None:
        sys.excepthook = told
        told(kind, error.with_traceback(frames), frames)

    sys.excepthook = tell


def main(number: int, words: list[str]) -> None:
    """Be warm before the word, and the program after it."""
    os.set_inheritable(number, False)  # noqa: FBT003  (nor may a cold rank have it open)
    names = []
    while words[0] == "--import":
        names.append(words[1])
        del words[:2]
    start = started_with("cmdline")
    del start[start.index(sys.argv[0]) :]
    before = {p.partition("=")[0]: p.partition("=")[2] for p in reversed(started_with("environ"))}
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # the directory of this program
    program = Program(words)
    refused = program.obstacle
    if program.first_path is not None:
        sys.path.insert(0, program.first_path)
    if refused is None:
        program.pose()
        warm(program, names)
        found = own_module(program)
        refused = found and f"an installed package imports {found} of the script"
    link = socket.socket(fileno=number)
    say(link, refused=refused)
    word = receive(link)
    environ, changed = word["environ"], changes(before)
    stale = [name for name in changed if environ.get(name) != before.get(name)]
    if stale:
        refused = refused or f"its imports have changed {min(stale)}, which is another one now"
    other = Program(word["argv"])
    refused = refused or misfit(program, other, word["cwd"])
    program = other
    say(link, cold=refused)
    if refused:
        os.chdir(word["cwd"])
        os.execvpe(start[0], [*start, *program.words], environ)
    if not link.recv(1):
        os._exit(0)
    link.close()
    environ.update(changed)
    os.environ.clear()
    os.environ.update({name: value for name, value in environ.items() if value is not None})
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [*start, *program.words]
    run(program)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
