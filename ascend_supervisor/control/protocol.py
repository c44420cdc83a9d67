"""Requests and answers of the control socket: a line of JSON each, as docs/control.md shows; pure.

It imports nothing slow, because health probes ask with it every few seconds.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, get_args

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict

from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.files.untrusted_json import (
    Cursor,
    Misfit,
    NotJson,
    parse_json,
    refuse_doubles,
)
from ascend_supervisor.untrusted_text import plain, printable, shown

VERSION = 1
MOST_REQUEST_BYTES = 4096
MOST_ANSWER_BYTES = 1024 * 1024
"""Both with the newline at the end."""
DUMP_SECONDS = 20.0
"""How long an answer to ``dump`` may take; all others come at once."""


def socket_beside(state_file: PurePath) -> PurePath:
    """Where the supervisor with this state file listens."""
    return state_file.with_name(f"{state_file.name}.sock")


# Requests ---------------------------------------------------------------------------------------


class _Asked(Struct, frozen=True, tag_field="request", forbid_unknown_fields=True):
    """Its tag is the value of ``request`` in the JSON."""


class Ping(_Asked, frozen=True, tag="ping"):
    """Whether the supervisor answers at all."""


class AskStatus(_Asked, frozen=True, tag="status"):
    """Where the job stands."""


class AskReady(_Asked, frozen=True, tag="ready"):
    """Whether the ranks do their work."""


class AskStop(_Asked, frozen=True, tag="stop"):
    """End the job as SIGTERM does; ``grace`` (seconds) stands in place of the job's."""

    grace: Annotated[float, Meta(ge=0)] | None = None


class AskRestart(_Asked, frozen=True, tag="restart"):
    """End the generation; the next one follows, and the restart budget is not charged.

    ``generation`` is the one that is meant; None for the one that runs.
    """

    generation: Annotated[int, Meta(ge=0)] | None = None


class AskDump(_Asked, frozen=True, tag="dump"):
    """Take the stacks of the ranks; nothing is ended."""


Request = Ping | AskStatus | AskReady | AskStop | AskRestart | AskDump
_NAMES = tuple(str(kind.__struct_config__.tag) for kind in get_args(Request))


class NotUnderstood(ValueError):
    """The line is no request, or no answer, of this version; the text is a sentence."""


def request_of(line: bytes) -> Request:
    """The request in ``line``; raises NotUnderstood."""
    members = dict(_members(line))
    version = members.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise NotUnderstood(
            f'expected "version": {VERSION}, found {_found(version)}; this supervisor answers no '
            "other version"
        )
    if members.get("request") not in _NAMES:
        raise NotUnderstood(
            f'expected as "request" one of {", ".join(_NAMES)}, found '
            f"{_found(members.get('request'))}"
        )
    try:
        request: Request = convert(members, Request)
    except ValidationError as error:
        raise NotUnderstood(f"the request {members['request']}: {printable(str(error))}") from error
    return request


def request_line(request: Request) -> bytes:
    """What a client writes."""
    name = request.__struct_config__.tag
    members = {key: value for key, value in asdict(request).items() if value is not None}
    return to_json({"version": VERSION, "request": name, **members}) + b"\n"


# Answers ----------------------------------------------------------------------------------------


class Pong(Struct, frozen=True):
    """The supervisor lives: its ``pid``, and its ``start_time`` in clock ticks since boot."""

    pid: int
    start_time: int | None


class Readiness(Struct, frozen=True):
    """``reason`` is a sentence, whatever the answer is."""

    ready: bool
    reason: str


class Accepted(Struct, frozen=True):
    """``stop`` and ``restart`` are under way; ``effect`` says what follows."""

    effect: str


class Dumped(Struct, frozen=True):
    """Who waits where, and the ``files`` in ``directory`` (null if none could be written)."""

    summary: str
    directory: str | None
    files: tuple[str, ...]


class Declined(Struct, frozen=True):
    """Nothing was done; ``error`` says why and what to do."""

    error: str


Answer = Pong | LiveStatus | Readiness | Accepted | Dumped | Declined


def answer_line(answer: Answer) -> bytes:
    """What the supervisor writes, at most MOST_ANSWER_BYTES."""
    is_ok = not isinstance(answer, Declined)
    line = to_json({"version": VERSION, "ok": is_ok, **asdict(answer)}) + b"\n"
    if len(line) <= MOST_ANSWER_BYTES:
        return line
    return answer_line(Declined(f"the answer would be longer than {MOST_ANSWER_BYTES} bytes"))


class AnsweredNo(Exception):
    """The supervisor has declined the request; the text is its sentence."""


def answer_of(line: bytes) -> Cursor:
    """The answer in ``line``, its members unchecked; raises AnsweredNo or NotUnderstood."""
    top = Cursor(_members(line))
    if type(top.get("version")) is not int or top.get("version") != VERSION:
        raise NotUnderstood(
            f"the supervisor answers in version {_found(top.get('version'))}, this program reads "
            f"version {VERSION}; use the one that was installed with the supervisor"
        )
    if top.get("ok") is True:
        return top
    try:
        raise AnsweredNo(plain(top.text("error")))
    except Misfit as error:
        raise NotUnderstood(str(error)) from error


def _members(line: bytes) -> dict[str, object]:
    try:
        top = parse_json(line)
        refuse_doubles(line, top)
    except (NotJson, Misfit) as error:
        raise NotUnderstood(f"expected one line with a JSON object: {error}") from error
    if not isinstance(top.value, dict):
        raise NotUnderstood(f"expected one line with a JSON object, found {_found(top.value)}")
    return top.value


def _found(value: object) -> str:
    return "nothing" if value is None else printable(shown(value))
