"""Makes the imports at the top of a script ahead of it, in its order; a part of warm_rank.py.

It runs in the user's interpreter (3.7 and later). Made are those that lie in installed packages,
up to a statement that may change how the next ones go, and up to the first module of the user: that
may read the rank, and may be another by the time that the script runs. The rest is left to the
script.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import warnings
from collections.abc import Iterator
from typing import NamedTuple

HERE = os.path.abspath(__file__)
INSTALLED = ("site-packages", "dist-packages")
STANDARD = os.path.dirname(os.__file__) + os.sep


class LeftToScript(Exception):
    """The rest is left to the script."""


class Import(NamedTuple):
    """One import: of a module, and of the names behind ``from``."""

    module: str
    names: tuple[str, ...] = ()
    line: int = 0

    @property
    def is_own(self) -> bool | None:
        """Whether it is of the user; None: part of Python, False: installed, or not to be found."""
        name = self.module.partition(".")[0]
        try:
            found = importlib.util.find_spec(name)
        except ValueError:
            return True
        if found is None:
            return False
        places = [found.origin or "", *(found.submodule_search_locations or ())]
        if any(part in place.split(os.sep) for place in places for part in INSTALLED):
            return False
        is_standard = found.origin in ("built-in", "frozen") or places[0].startswith(STANDARD)
        return None if is_standard else True

    def make(self, file: str) -> None:
        """As a line of the file, which warnings name. Raises LeftToScript if it is the user's."""
        if self.is_own is None:
            return
        if self.is_own:
            raise LeftToScript
        names = ", ".join(self.names)
        text = f"from {self.module} import {names}" if names else f"import {self.module}"
        code = compile("\n" * (self.line - 1) + text, file, "exec", dont_inherit=True)
        exec(code, {"__name__": "__main__"})  # noqa: S102  (an import, and nothing else)


def follow(nodes: list[ast.stmt], file: str) -> None:
    """Make the imports as the statements do; raises what they raise, or LeftToScript."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for one in imports_of(node):
                one.make(file)
        elif isinstance(node, ast.Try):
            try:
                follow(node.body, file)
            except ImportError:
                if len(node.handlers) != 1:
                    raise LeftToScript from None
                follow(node.handlers[0].body, file)
            else:
                follow(node.orelse, file)
            follow(node.finalbody, file)
        elif isinstance(node, ast.If):
            follow(branch(node), file)
        elif not is_harmless(node):
            raise LeftToScript


def imports_of(node: ast.Import | ast.ImportFrom) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, (), node.lineno)
    elif node.level or not node.module:
        raise LeftToScript
    else:
        yield Import(node.module, tuple(alias.name for alias in node.names), node.lineno)


def branch(node: ast.If) -> list[ast.stmt]:
    """What runs of it in __main__, and not for type checkers; else raises LeftToScript."""
    test = ast.dump(node.test)
    if getattr(node.test, "attr", getattr(node.test, "id", "")) == "TYPE_CHECKING":
        return node.orelse
    if "'__name__'" in test and "'__main__'" in test and "[Eq()]" in test:
        return node.body
    raise LeftToScript


def is_harmless(node: ast.stmt) -> bool:
    """Definitions, names for values, texts: what calls nothing and changes nothing."""
    if isinstance(node, ast.ClassDef):
        return not node.decorator_list and all(map(is_harmless, node.body))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return not node.decorator_list and not calls(node.args)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(one, ast.Name) for one in targets) and not calls(node)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and not calls(node))


def calls(node: ast.AST) -> bool:
    return any(isinstance(one, (ast.Call, ast.Await)) for one in ast.walk(node))


def make_imports(path: str | None, names: list[str]) -> None:
    """Those of the script at ``path``, then ``names``; what one raises the script meets again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when the script is compiled
            body = ast.parse(source_of(path)).body if path is not None else []
        follow(body, path or HERE)
    except BaseException:  # noqa: BLE001, S110  (SystemExit, too)
        pass
    for name in names:
        try:
            Import(name).make(HERE)
        except BaseException:  # noqa: BLE001, S110
            pass


def source_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
