"""How etcd is reached: endpoints, a CA, a user with a password; pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import urlsplit

from msgspec import Struct

from ascend_supervisor.untrusted_text import shown

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")
_LOGIN = re.compile(r".*@", re.DOTALL)

EXPECTED = "URLs http://HOST:PORT or https://HOST:PORT with commas between"


class Endpoint(Struct, frozen=True):
    """An address at which etcd's clients are served; ``str()`` is its URL.

    ``whose`` says in errors where it is.
    """

    host: str
    port: int
    is_tls: bool
    whose: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"

    @property
    def told(self) -> str:
        """Its URL, and whose it is if that is known."""
        return f"{self} ({self.whose})" if self.whose else str(self)


class Password(Struct, frozen=True):
    """A password, which is not shown when it is printed by accident."""

    text: str

    def __repr__(self) -> str:
        return "***"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("text", "***")]


class Login(Struct, frozen=True):
    user: str
    password: Password


class Kept(Struct, frozen=True):
    """What proves to etcd who we are, and to us that it is etcd; None: it cannot be read."""

    login: Login | None = None
    ca: str | None = None


class Access(Struct, frozen=True):
    """How etcd is reached, and what is expected of an answer.

    Without ``endpoints`` the client is told later where etcd is (``Etcd.move``).
    ``ca`` holds certificates in PEM, in place of the system's. A request has ``deadline`` seconds
    for all endpoints together. An answer, or a message of a watch, has ``most_bytes``. Where we are
    refused, ``again`` reads the user and the CA once more: whoever keeps them may renew them.
    """

    endpoints: tuple[Endpoint, ...]
    login: Login | None = None
    ca: str | None = None
    deadline: float = 5.0
    most_bytes: int = 64 * 1024 * 1024  # 1,250 records of 1 kB are 1.5 MB
    again: Callable[[], Awaitable[Kept]] | None = None


def read_endpoints(found: object) -> tuple[Endpoint, ...]:
    """The endpoints of a text with commas or of a list; raises ValueError with what it expects."""
    items = found.split(",") if isinstance(found, str) else found
    if not isinstance(items, list) or not items:
        raise ValueError(EXPECTED)
    return tuple(dict.fromkeys(map(_endpoint, items)))


def shown_endpoints(found: object) -> str:
    """What was found, for a message; without what may be a password."""
    if isinstance(found, list):
        return shown([_masked(item) for item in found])
    return shown(_masked(found))


def _masked(item: object) -> object:
    return _LOGIN.sub("***@", item) if isinstance(item, str) else item


def _endpoint(item: object) -> Endpoint:
    text = item.strip() if isinstance(item, str) else ""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(EXPECTED) from error
    if "@" in text:
        raise ValueError(
            f"{EXPECTED}, without user and password, which everybody could read in a list of "
            "processes"
        )
    is_bare = parts.path in {"", "/"} and not parts.query and not parts.fragment
    host = parts.hostname or ""
    is_http = parts.scheme in {"http", "https"} and text.isprintable()
    if not is_http or not is_bare or not port or not _is_host(host):
        raise ValueError(EXPECTED)
    return Endpoint(host, port, parts.scheme == "https")


def _is_host(text: str) -> bool:
    if ":" not in text:
        return _HOST.fullmatch(text) is not None
    try:
        return IPv6Address(text).scope_id is None
    except AddressValueError:
        return False
