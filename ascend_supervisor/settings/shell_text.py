"""The commands that a shell runs in any case, told by its text; pure.

What depends on a condition, a loop, or a variable that may have another value is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from msgspec import Struct

MOST_CHARACTERS = 256 * 1024
"""Of a longer text nothing is known."""
MOST_CALLS = 8
"""Of functions within functions."""

ASSIGNS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_OFF = frozenset({"", "0", "false", "False", "FALSE"})
_COMMENT = re.compile(r"^[ \t]*#.*$|(?<=[ \t])#[^'\"\n]*$", re.MULTILINE)
_LINE_ENDS = "\x01"
_OPERATOR = re.compile(r"[();<>|&]+")
_CONDITIONS = frozenset({"if", "while", "until"})
_LISTS = frozenset({"for", "case", "select"})
_CLOSES = frozenset({"fi", "done", "esac"})
_BEFORE_A_COMMAND = frozenset({"then", "do", "else", "elif", "!"})
_NAMES_VARIABLES = frozenset({"export", "declare", "readonly", "typeset", "local"})
_SETS_VARIABLES = frozenset(
    {".", "source", "eval", "read", "getopts", "mapfile", "readarray", "printf", "let", "unset"}
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_WHICH = re.compile(r"\$\((?:which|command -v|type -p) +([\w./-]+)\)|`which +([\w./-]+)`")
_GO_WELL = frozenset(
    {
        ":",
        ".",
        "cd",
        "chmod",
        "cp",
        "date",
        "echo",
        "eval",
        "export",
        "ln",
        "mkdir",
        "module",
        "pip",
    }
    | {"pip3", "pushd", "pwd", "rm", "set", "sleep", "source", "true", "ulimit", "umask", "unset"}
)
"""What is behind ``&&`` after one of these is certain; any other command may be a question."""
_BRACES_AND_KEYWORDS = _BEFORE_A_COMMAND | _CONDITIONS | _CLOSES | {"{", "}"}
_LEAVES = frozenset({"exit", "exec", "return"})


def switched_on(variables: Mapping[str, str]) -> frozenset[str]:
    """The names of those that no program takes for switched off."""
    return frozenset(name for name, value in variables.items() if value not in _OFF)


def assigned(words: Iterable[str]) -> dict[str, str]:
    """The variables that words such as ``A=1`` set; others set none."""
    return {found[1]: found[2] for word in words if (found := ASSIGNS.fullmatch(word)) is not None}


class ShellCommand(Struct, frozen=True):
    """Its words, as far as they are no redirections, and the variables that are set by then."""

    words: tuple[str, ...]
    variables: frozenset[str]


_Part: TypeAlias = tuple[list[str], str]
"""The words of a command, and the operator behind it."""


def commands_in(text: str) -> Iterator[ShellCommand]:
    """The commands that are certain, in their order; none of a text that cannot be read."""
    try:
        tokens = list(_tokens(text)) if len(text) <= MOST_CHARACTERS else []
    except ValueError:  # quotes that do not match
        return
    yield from _read(list(_parts(tokens)), _Reading(), MOST_CALLS)


def _read(parts: Sequence[_Part], reading: _Reading, calls: int) -> Iterator[ShellCommand]:
    """The commands that are certain; in place of the call of a function, those of its body."""
    at = 0
    while at < len(parts) and not reading.has_ended:
        part, operator = parts[at]
        name = _defined(part, operator)
        if name and (end := _end_of_braces(parts, at + (part[-1] != "{"))):
            reading.define(name, parts[at + 1 : end])
            at = end
            continue
        at += 1
        for command in reading.take(part, operator):
            body = reading.functions.get(command.words[0])
            if body is None:
                yield command
            elif calls:
                inner = reading.of_body()
                yield from _read(body, inner, calls - 1)
                reading.has_left = reading.has_ended = inner.has_left


def _defined(part: list[str], operator: str) -> str | None:
    """The function that is defined by what follows, or by the brace at the end."""
    if part[:1] == ["function"] and len(part) > 1 and (part[-1] == "{" or operator[:2] == "()"):
        return part[1]
    return part[0] if len(part) == 1 and operator.startswith("()") else None


def _end_of_braces(parts: Sequence[_Part], start: int) -> int | None:
    """Where the braces are closed that the next words open; None if that is unknown."""
    depth = 0
    for at in range(start, len(parts)):
        words = parts[at][0]
        if words[:1] == ["function"] and words[-1] == "{":
            depth += 1
        for word in takewhile(_BRACES_AND_KEYWORDS.__contains__, words):
            depth += {"{": 1, "}": -1}.get(word, 0)
        if depth == 0 and words:
            return at if words[0] == "}" else None
    return None


def _tokens(text: str) -> Iterator[str]:
    from shlex import shlex  # noqa: PLC0415  (most commands need no shell)

    text = _COMMENT.sub("", text.replace("\\\n", " ")).replace("\n", f" {_LINE_ENDS} ")
    text = _WHICH.sub(lambda found: found[1] or found[2], text)
    lexer = shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return iter(lexer)


def _parts(tokens: list[str]) -> Iterator[tuple[list[str], str]]:
    """The words up to each operator, and the operator; without redirections and substitutions."""
    words: list[str] = []
    inside = 0
    """How many brackets of an array or a substitution are open."""
    is_file = False
    for token in tokens:
        is_operator = _OPERATOR.fullmatch(token) is not None
        if inside:
            inside += token.count("(") - token.count(")") if is_operator else 0
        elif is_operator and "(" in token and words and words[-1].endswith(("=", "$")):
            inside = token.count("(") - token.count(")")
        elif is_operator and {"<", ">"} & {*token}:
            if "<<" in token:  # what follows may be no commands
                return
            is_file = "(" not in token
        elif is_operator or token == _LINE_ENDS:
            yield words, token
            words = []
        elif is_file:
            is_file = False
        else:
            words.append(token)
    yield words, _LINE_ENDS


class _Reading:
    """Where in the text the reader is."""

    def __init__(self) -> None:
        self.has_ended = False
        """Whether nothing more is certain."""
        self.has_left = False
        """Whether that holds for the callers of a function, too."""
        self.functions: dict[str, Sequence[_Part]] = {}
        self._depth = 0
        """How many conditions, loops and functions are open."""
        self._is_function = False
        """Whether the next brace begins one."""
        self._is_asked = False
        """Whether the next command depends on the one before it."""
        self._values: dict[str, str] = {}
        """The variables that are known; what was set under a condition once is not."""
        self._unknown: set[str] = set()

    def of_body(self) -> _Reading:
        """The reader of a function that is called now."""
        inner = _Reading()
        inner.functions, inner._values = self.functions, self._values
        inner._unknown = self._unknown
        return inner

    def define(self, name: str, body: Sequence[_Part]) -> None:
        """Of a function that is defined under a condition nothing is known."""
        self.functions[name] = () if self._depth or self._is_asked else body
        self._is_asked = False

    def take(self, part: list[str], operator: str) -> Iterator[ShellCommand]:
        """The command in ``part``, if it is certain."""
        words = self._without_keywords(part)
        if words and operator.startswith("()"):
            self._is_function = True
            return
        is_certain = not (self._depth or self._is_asked)
        if words and all(map(ASSIGNS.fullmatch, words)):
            self._set(words, is_certain)
        elif words:
            words = self._expanded(words)
            yield from self._command(words, is_certain)
        if operator in {"&&", "||"}:
            self._is_asked = self._is_asked or operator == "||" or not self._goes_well(words)
        elif part and operator not in {"|", "|&"}:
            self._is_asked = False

    def _command(self, words: list[str], is_certain: bool) -> Iterator[ShellCommand]:
        if not words:
            return
        if words[0] in _NAMES_VARIABLES:
            self._set(words[1:], is_certain and words[0] != "local")
        elif words[0] in _SETS_VARIABLES or (words[0] in self.functions and not is_certain):
            self._unknown.update(self._values)
            self._values.clear()
        is_complaint = words[0] == "exit" and "".join(words[1:]).lstrip("0").isdigit()
        may_leave = words[0] in self.functions and not is_certain and self._leaves(words[0])
        if (words[0] in _LEAVES and not is_complaint) or may_leave:
            self.has_ended = True  # or it depends on a condition whether there is more
            self.has_left = words[0] != "return"
        if is_certain and not any("`" in word for word in words):
            yield ShellCommand(tuple(words), switched_on(self._values))

    def _leaves(self, name: str) -> bool:
        """Whether the function may end the shell, or do what is not known."""
        parts = self.functions[name]
        firsts = {word for part, _ in parts for word in part}
        return not parts or bool(firsts & ({"exit", "exec"} | {*self.functions} - {name}))

    def _expanded(self, words: list[str]) -> list[str]:
        """The words, with the values of variables that are known."""
        known = ((word, _VARIABLE.fullmatch(word)) for word in words)
        return [
            each
            for word, found in known
            for each in (
                self._values[found[1]].split() if found and found[1] in self._values else [word]
            )
        ]

    def _goes_well(self, words: list[str]) -> bool:
        return bool(words) and (words[0] in _GO_WELL or all(map(ASSIGNS.fullmatch, words)))

    @property
    def _may_be_left_out(self) -> bool:
        """Whether what is in the next braces depends on something."""
        return self._is_function or self._depth > 0 or self._is_asked

    def _set(self, words: list[str], is_certain: bool) -> None:
        for name, value in assigned(words).items():
            is_known = is_certain and name not in self._unknown
            if is_known and not any(word.startswith(f"{name}+=") for word in words):
                self._values[name] = value
            else:
                self._unknown.add(name)
                self._values.pop(name, None)

    def _without_keywords(self, part: list[str]) -> list[str]:
        """The command at the end of ``part``; notes what begins or ends before it."""
        for at, word in enumerate(part):
            if word in _LISTS:
                self._depth += 1
                self._set([f"{name}=" for name in part[at + 1 : at + 2]], is_certain=False)
                return []
            if word == "function":
                self._is_function = True
                return self._without_keywords(part[-1:]) if part[-1] == "{" else []
            if word in _CONDITIONS or (word == "{" and self._may_be_left_out):
                self._depth += 1
                self._is_function = self._is_function and word != "{"
            elif word in _CLOSES or word == "}":
                self._depth = max(0, self._depth - 1)
            elif word not in _BEFORE_A_COMMAND and word != "{":
                return part[at:]
        return []
