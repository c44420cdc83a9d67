"""Imports what a script imports, waits for the word, and runs the script; a program of its own.

    python [OPTIONS] warm_rank.py FD [--import NAME]... SCRIPT [ARGUMENT]...
    python [OPTIONS] warm_rank.py FD [--import NAME]... -m MODULE [ARGUMENT]...

It runs in the user's interpreter (3.7 and later) and imports nothing of ours. The imports at the
top of the script that lie in installed packages are made at once, as the script would make them;
its own modules are left to it. What comes behind a statement that may change how something is
imported is left to it, too.

Then it says so at FD, a socket, in a line of JSON, with ``refused`` (half a sentence) if it
would not be what the script is without it. The word is one byte with two
descriptors: the output of the rank, and a file of JSON with its environ, argv and cwd. An end
without a word ends it. A word that no longer fits, or comes after ``refused``, starts it cold.
"""

from __future__ import annotations

import array
import ast
import builtins
import importlib.machinery
import json
import os
import runpy
import socket
import stat
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

ABSOLUTE = (3, 9)
"""From this version on a script has its whole path."""
HERE = os.path.abspath(__file__)
INSTALLED = ("site-packages", "dist-packages")
DESCRIPTORS = 2


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
        return None if is_package(script) or is_text(source) else f"{script} is not UTF-8"

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


def is_package(script: str) -> bool:
    """Whether the interpreter takes it for a directory or archive with a __main__."""
    if script.endswith(".py"):
        return os.path.isdir(script)
    import zipfile  # noqa: PLC0415  (seldom)

    return os.path.isdir(script) or zipfile.is_zipfile(script)


class Import(NamedTuple):
    """One import: of a module, and of the names behind ``from``."""

    module: str
    names: tuple[str, ...] = ()
    line: int = 0

    @property
    def is_installed(self) -> bool:
        """Whether the module comes from an installed package, and from nowhere before it."""
        found = find(self.module.partition(".")[0])
        if found is None:
            return False
        places = [found.origin or "", *(found.submodule_search_locations or ())]
        return any(part in place.split(os.sep) for place in places for part in INSTALLED)

    def make(self, file: str) -> None:
        """As a line of the file, which warnings name; what it raises the script meets again."""
        names = ", ".join(self.names)
        text = f"from {self.module} import {names}" if names else f"import {self.module}"
        text, file = "\n" * (self.line - 1) + text, file if self.line else HERE
        try:
            code = compile(text, file, "exec", dont_inherit=True)
            exec(code, {"__name__": "__main__"})  # noqa: S102  (an import, and nothing else)
        except BaseException:  # noqa: BLE001  (SystemExit, too)
            return


def imports_at_top(source: bytes) -> Iterator[Import]:
    """Those before the first statement that may change how the next ones go; none if unreadable."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return
    for node in body:
        if isinstance(node, ast.Try) and all(map(is_import, node.body)):
            yield from imports_of(node.body)
        elif is_import(node):
            yield from imports_of([node])
        elif not is_harmless(node):
            return


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def imports_of(nodes: list[ast.stmt]) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield Import(node.module, tuple(alias.name for alias in node.names), node.lineno)


def is_harmless(node: ast.stmt) -> bool:
    """Definitions, names for values, texts, and what runs only in __main__ or for type checkers."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return True
    if isinstance(node, ast.If):
        test = ast.dump(node.test)
        return "TYPE_CHECKING" in test or ("__name__" in test and "__main__" in test)
    if isinstance(node, ast.Assign) and not all(isinstance(one, ast.Name) for one in node.targets):
        return False
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
        return not any(isinstance(one, (ast.Call, ast.Await)) for one in ast.walk(node))
    return isinstance(node, ast.Pass)


def warm(program: Program, names: list[str]) -> None:
    """Make the imports; ``names`` are of modules, or of what a module holds."""
    path = program.file
    source = content(path) if path is not None and os.access(path, os.R_OK) else b""
    for one in [*imports_at_top(source), *map(Import, names)]:
        if one.is_installed:
            one.make(path or HERE)


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


def receive(link: socket.socket) -> dict[str, Any]:
    """The word; the output that comes with it takes the place of ours. Ends without a word."""
    numbers = array.array("i")
    data, ancillary, _, _ = link.recvmsg(1, socket.CMSG_SPACE(DESCRIPTORS * numbers.itemsize))
    for _, _, content in ancillary:
        numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    link.close()
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
    try:
        link.sendall(json.dumps({"refused": refused}).encode() + b"\n")
    except OSError:
        pass  # the word has come already, and nobody hears us any more
    word = receive(link)
    environ, changed = word["environ"], changes(before)
    is_stale = any(environ.get(name) != before.get(name) for name in changed)
    program = Program(word["argv"])
    named = 2 if words[0] == "-m" else 1
    is_other = program.words[:named] != words[:named] or word["cwd"] != os.getcwd()
    if refused or is_other or is_stale or program.obstacle:
        os.chdir(word["cwd"])
        os.execvpe(start[0], [*start, *program.words], environ)
    environ.update(changed)
    os.environ.clear()
    os.environ.update({name: value for name, value in environ.items() if value is not None})
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [*start, *program.words]
    run(program)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
