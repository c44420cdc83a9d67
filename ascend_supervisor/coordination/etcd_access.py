"""The etcd of ``--peers``: reads what the settings name, and makes a client."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio

from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Access, Kept, Login, Password
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import HttpxMissing, Refused
from ascend_supervisor.etcd.opening import etcd_client
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.settings.peers_options import PASSWORD
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import plain

CA_BYTES = 1024 * 1024
PASSWORD_BYTES = 4096
FILE_SECONDS = 5.0
AGAIN_SECONDS = 0.2
"""Within a request, for a file that was read before."""


@asynccontextmanager
async def etcd_of(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Etcd]:
    """A client of the etcd of ``--peers``, which was given.

    Raises SettingsRefused for a file that cannot be used, or without httpx; Unavailable where the
    files cannot be read in time.
    """
    access = None
    with anyio.move_on_after(FILE_SECONDS):
        access = await aside(partial(access_of, settings, environ))
    if access is None:
        raise Unavailable(
            f"--peers: the file system of its CA or password does not answer within "
            f"{FILE_SECONDS:g} s"
        )
    async with AsyncExitStack() as stack:
        try:
            etcd = await stack.enter_async_context(etcd_client(access))
        except HttpxMissing as error:
            raise SettingsRefused(
                f"--peers: {error}; install it with: {sys.executable} -m pip install 'httpx>=0.28'"
            ) from error
        except Refused as error:
            where = plain(str(settings.peers_ca))
            raise SettingsRefused(f"--peers-ca: {where}: {error}") from error
        yield etcd


def access_of(settings: Settings, environ: Mapping[str, str]) -> Access:
    """Raises SettingsRefused if the CA or the password cannot be read, which may block.

    A request gets a quarter of the TTL, because a lease is kept alive so often.
    """
    ca = None if settings.peers_ca is None else _read("--peers-ca", settings.peers_ca, CA_BYTES)
    endpoints = settings.peers if isinstance(settings.peers, tuple) else ()
    seconds = settings.peers_ttl / 4
    again = partial(_kept, settings, environ)
    return Access(endpoints, _login(settings, environ), ca, seconds, again=again)


async def _kept(settings: Settings, environ: Mapping[str, str]) -> Kept:
    """The user and the CA as their files are by now; what cannot be read in time is left out."""
    login = ca = None
    with anyio.move_on_after(AGAIN_SECONDS), suppress(SettingsRefused):
        login = await aside(partial(_login, settings, environ))
    if settings.peers_ca is not None:
        with anyio.move_on_after(AGAIN_SECONDS), suppress(SettingsRefused):
            ca = await aside(partial(_read, "--peers-ca", settings.peers_ca, CA_BYTES))
    return Kept(login, ca)


def _login(settings: Settings, environ: Mapping[str, str]) -> Login | None:
    if settings.peers_user is None:
        return None
    file = settings.peers_password_file
    if file is None:
        return Login(settings.peers_user, Password(environ.get(PASSWORD, "")))
    password = _read("--peers-password-file", file, PASSWORD_BYTES).rstrip("\r\n")
    if not password:
        raise SettingsRefused(
            f"--peers-password-file: {plain(str(file))}: expected a password, found an empty file"
        )
    return Login(settings.peers_user, Password(password))


def _read(option: str, file: Path, most: int) -> str:
    try:
        return read_regular_file(file, most).decode()
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise SettingsRefused(f"{option}: {plain(str(file))} cannot be read: {reason}")
