"""The options by which somebody outside is told what happens to the job."""

from __future__ import annotations

import re
import shlex
from typing import Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from ascend_supervisor.settings.kinds import PATH, PREFIX, Group, Kind, Option, choice
from ascend_supervisor.settings.readers import ServerCheckChoice

AlertKind = Literal["failed", "restarted", "hang", "ended"]
"""``failed`` and ``ended`` are the end of the job, with or without a failure."""

AlertFormat = Literal["auto", "json", "slack", "feishu", "dingtalk", "wecom", "alertmanager"]
ALERT_FORMATS: tuple[AlertFormat, ...] = get_args(AlertFormat)
SECRET_VARIABLES = frozenset({f"{PREFIX}NOTIFY_URL", f"{PREFIX}ON_EVENT", f"{PREFIX}SERVER_CHECK"})
"""Their values may hold secrets: a part of a URL, an argument of the command."""
ALERT_KINDS: tuple[AlertKind, ...] = get_args(AlertKind)


USUAL_PORTS = {False: 80, True: 443}

_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9_][a-z0-9._-]{0,252}|[0-9a-f:.]{2,45}")
ANYTHING = "another value"
"""Is told in place of what may be a secret."""


class EventProgram(Struct, frozen=True):
    """A program and its arguments, which may be secrets: ``str()`` shows only the program."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.words[0]} ***" if self.words[1:] else self.words[0]

    __repr__ = __str__


class Webhook(Struct, frozen=True):
    """An endpoint. Its path and query are a secret: ``str()`` does not show them."""

    host: str
    port: int
    is_tls: bool
    target: str

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def authority(self) -> str:
        """As in a URL: without the port if that is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == USUAL_PORTS[self.is_tls] else f"{host}:{self.port}"

    def __str__(self) -> str:
        secret = "" if self.target == "/" else "***"
        return f"{'https' if self.is_tls else 'http'}://{self.authority}/{secret}"

    __repr__ = __str__


def read_webhooks(found: object) -> tuple[Webhook, ...]:
    """The endpoint of a URL, or those of a list."""
    return tuple(map(_webhook, found if isinstance(found, list) else [found]))


def _webhook(found: object) -> Webhook:
    expected = "a URL http://... or https://..., without a user"
    text = found.strip() if isinstance(found, str) else ""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(expected) from error
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    is_one = _URL.fullmatch(text) and _HOST.fullmatch(host) and port != 0
    if not is_one or "@" in parts.netloc or parts.fragment:
        raise ValueError(expected)
    query = f"?{parts.query}" if parts.query else ""
    return Webhook(host, port or USUAL_PORTS[is_tls], is_tls, f"{parts.path or '/'}{query}")


def read_event_program(found: object) -> EventProgram:
    """A command, split into words as a shell does, but for which no shell is started."""
    try:
        words = shlex.split(found) if isinstance(found, str) and "\0" not in found else []
    except ValueError:
        words = []
    if not any(words[:1]):
        raise ValueError("a command, with quotes that end")
    return EventProgram(tuple(words))


def read_server_check(found: object) -> EventProgram | ServerCheckChoice:
    """``auto`` is our own check; a command is the user's, with ``{rank}`` once for each rank."""
    word = found.strip().lower() if isinstance(found, str) else found
    if word == "auto" or word is True:
        return "auto"
    if word == "off" or word is False:
        return "off"
    try:
        return read_event_program(found)
    except ValueError as error:
        raise ValueError(f"auto, off, or {error}") from None


def read_alert_kinds(found: object) -> tuple[AlertKind, ...]:
    """From a list or from a text with commas."""
    items = found.split(",") if isinstance(found, str) else found
    words = [str(item).strip() for item in items] if isinstance(items, list) else []
    kinds = tuple(kind for kind in ALERT_KINDS if kind in words)
    if not kinds or not set(words) <= set(kinds):
        raise ValueError(f"some of {', '.join(ALERT_KINDS)}, with commas between")
    return kinds


URLS = ("notify-url", "notify-url-file")
ALERTS: Group = (
    "Being told",
    (
        Option(
            "on-event",
            Kind("CMD", read_event_program, shown=lambda _: ANYTHING),
            "run CMD for each event of --notify-on, with the event as a line of JSON on its stdin; "
            "no shell is started",
            otherwise="off",
        ),
        Option(
            "notify-url",
            Kind("URL", read_webhooks, repeats=True, shown=lambda _: ANYTHING),
            "send a message for each incident of --notify-on to URL (a webhook); may be repeated",
        ),
        Option(
            "notify-url-file",
            PATH,
            "a file with such URLs, one a line: others can read a command line",
            otherwise="none",
        ),
        Option(
            "notify-format",
            choice("FORMAT", ALERT_FORMATS),
            f"what these URLs take: {', '.join(ALERT_FORMATS)}; auto goes by the host of the URL",
            default="auto",
            needs=URLS,
        ),
        Option(
            "notify-ca",
            PATH,
            "CA certificates for https, in PEM",
            otherwise="the system's",
            needs=URLS,
        ),
        Option(
            "notify-on",
            Kind("LIST", read_alert_kinds),
            "what is told: failed and ended (the end of the job), restarted, hang",
            default="failed,restarted,hang,ended",
            needs=("on-event", *URLS),
        ),
    ),
)
