"""The commands that a shell runs in any case, told by its text; pure.

What depends on a condition, a loop, a function or a variable is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

MOST_CHARACTERS = 256 * 1024
"""Of a longer text nothing is known."""

ASSIGNS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=.*", re.DOTALL)
_COMMENT = re.compile(r"^[ \t]*#.*$|(?<=[ \t])#[^'\"\n]*$", re.MULTILINE)
_LINE_ENDS = "\x01"
_OPERATOR = re.compile(r"[();<>|&]+")
_CONDITIONS = frozenset({"if", "while", "until"})
_LISTS = frozenset({"for", "case", "select"})
_CLOSES = frozenset({"fi", "done", "esac"})
_BEFORE_A_COMMAND = frozenset({"then", "do", "else", "elif", "!"})
_NAMES_VARIABLES = frozenset({"export", "declare", "readonly", "typeset"})
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
_LEAVES = frozenset({"exit", "exec", "return"})


class ShellCommand(Struct, frozen=True):
    """Its words, as far as they are no redirections, and the variables that are set by then."""

    words: tuple[str, ...]
    variables: frozenset[str]


def commands_in(text: str) -> Iterator[ShellCommand]:
    """The commands that are certain, in their order; none of a text that cannot be read."""
    try:
        tokens = list(_tokens(text)) if len(text) <= MOST_CHARACTERS else []
    except ValueError:  # quotes that do not match
        return
    reading = _Reading()
    for part, operator in _parts(tokens):
        yield from reading.take(part, operator)
        if reading.has_ended:
            return


def _tokens(text: str) -> Iterator[str]:
    from shlex import shlex  # noqa: PLC0415  (most commands need no shell)

    text = _COMMENT.sub("", text.replace("\\\n", " ")).replace("\n", f" {_LINE_ENDS} ")
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
        self._depth = 0
        """How many conditions, loops and functions are open."""
        self._is_function = False
        """Whether the next brace begins one."""
        self._is_asked = False
        """Whether the next command depends on the one before it."""
        self._variables: set[str] = set()

    def take(self, part: list[str], operator: str) -> Iterator[ShellCommand]:
        """The command in ``part``, if it is certain."""
        words = self._without_keywords(part)
        if words and operator.startswith("()"):
            self._is_function = True
            return
        if words and all(map(ASSIGNS.fullmatch, words)):
            self._set(words)
        elif words:
            if words[0] in _NAMES_VARIABLES:
                self._set(words[1:])
            has_substitution = any("`" in word for word in words)
            is_certain = not (self._depth or self._is_asked or has_substitution)
            is_complaint = words[0] == "exit" and "".join(words[1:]).lstrip("0").isdigit()
            if words[0] in _LEAVES and not is_complaint:
                self.has_ended = True  # or it depends on a condition whether there is more
            if is_certain:
                yield ShellCommand(tuple(words), frozenset(self._variables))
        if operator in {"&&", "||"}:
            self._is_asked = self._is_asked or operator == "||" or not self._goes_well(words)
        elif part and operator not in {"|", "|&"}:
            self._is_asked = False

    def _goes_well(self, words: list[str]) -> bool:
        return bool(words) and (words[0] in _GO_WELL or all(map(ASSIGNS.fullmatch, words)))

    @property
    def _may_be_left_out(self) -> bool:
        """Whether what is in the next braces depends on something."""
        return self._is_function or self._depth > 0 or self._is_asked

    def _set(self, words: list[str]) -> None:
        self._variables.update(found[1] for word in words if (found := ASSIGNS.fullmatch(word)))

    def _without_keywords(self, part: list[str]) -> list[str]:
        """The command at the end of ``part``; notes what begins or ends before it."""
        for at, word in enumerate(part):
            if word in _LISTS:
                self._depth += 1
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
