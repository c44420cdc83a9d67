"""Where the servers of the job meet: the etcd of ``--peers``, and its client."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath
from platform import node

import anyio
from msgspec import Struct

from ascend_supervisor import __version__
from ascend_supervisor.coordination.agreement.records import EPOCH_KEY, job_prefix
from ascend_supervisor.coordination.agreement.situation import VERSION
from ascend_supervisor.coordination.peers.facts import Facts
from ascend_supervisor.coordination.peers.near import FEW
from ascend_supervisor.coordination.peers.shared_steps import StepsOfJob
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Access, Endpoint, Kept, Login, Password
from ascend_supervisor.etcd.client import Etcd, etcd_client
from ascend_supervisor.etcd.failures import EtcdError, HttpxMissing, Refused
from ascend_supervisor.etcd.values import Get, Key
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.outcome import Patience
from ascend_supervisor.restart_policy import RestartBudget
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import plain

CA_BYTES = 1024 * 1024
PASSWORD_BYTES = 4096
FILE_SECONDS = 5.0
AGAIN_SECONDS = 0.2
"""Within a request, for a file that was read before."""


class PeersEtcd(Struct, frozen=True):
    """The etcd of ``--peers``, and who we are there; ``ttl`` in seconds.

    ``endpoints`` are none where the job brings its etcd. The ``password`` is that of a variable: a
    file comes before it.
    """

    endpoints: tuple[Endpoint, ...]
    ttl: int
    ca: Path | None
    user: str | None
    password: Password
    password_file: Path | None


@asynccontextmanager
async def etcd_of(named: PeersEtcd) -> AsyncIterator[Etcd]:
    """A client of the etcd.

    Raises SettingsRefused for a file that cannot be used, or without httpx; Unavailable where the
    files cannot be read in time.
    """
    access = None
    with anyio.move_on_after(FILE_SECONDS):
        access = await aside(partial(access_of, named))
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
            where = plain(str(named.ca))
            raise SettingsRefused(f"--peers-ca: {where}: {error}") from error
        yield etcd


async def answers_of(named: PeersEtcd, job: str, reads: int) -> tuple[float, float | None]:
    """How soon the etcd answers at best, in seconds, and how far its clock is ahead of ours.

    It is asked so many times. Raises what ``etcd_of`` does, and Unavailable if it does not answer.
    """
    took = []
    key = Get(Key(job_prefix(job) + EPOCH_KEY), only_count=True)  # a user may see no other
    try:
        async with etcd_of(named) as etcd:
            for _ in range(reads):
                began = anyio.current_time()
                await etcd.read(key)
                took.append(anyio.current_time() - began)
            return min(took), etcd.clock_ahead
    except EtcdError as error:
        raise Unavailable(str(error)) from error


def access_of(named: PeersEtcd) -> Access:
    """Raises SettingsRefused if the CA or the password cannot be read, which may block.

    A request gets a quarter of the TTL, because a lease is kept alive so often.
    """
    ca = None if named.ca is None else _read("--peers-ca", named.ca, CA_BYTES)
    again = partial(_kept, named)
    return Access(named.endpoints, _login(named), ca, named.ttl / 4, again=again)


async def _kept(named: PeersEtcd) -> Kept:
    """The user and the CA as their files are by now; what cannot be read in time is left out."""
    login = ca = None
    with anyio.move_on_after(AGAIN_SECONDS), suppress(SettingsRefused):
        login = await aside(partial(_login, named))
    if named.ca is not None:
        with anyio.move_on_after(AGAIN_SECONDS), suppress(SettingsRefused):
            ca = await aside(partial(_read, "--peers-ca", named.ca, CA_BYTES))
    return Kept(login, ca)


def _login(named: PeersEtcd) -> Login | None:
    if named.user is None:
        return None
    file = named.password_file
    if file is None:
        return Login(named.user, named.password)
    password = _read("--peers-password-file", file, PASSWORD_BYTES).rstrip("\r\n")
    if not password:
        raise SettingsRefused(
            f"--peers-password-file: {plain(str(file))}: expected a password, found an empty file"
        )
    return Login(named.user, Password(password))


def _read(option: str, file: Path, most: int) -> str:
    try:
        return read_regular_file(file, most).decode()
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise SettingsRefused(f"{option}: {plain(str(file))} cannot be read: {reason}")


OWN_NAMES = ("POD_NAME", "HOSTNAME", "POD_IP", "HOST_IP", "NODE_NAME")
"""Variables whose values may stand in the command of one server, and others in that of another."""


POD_NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME")
NODES = ("NODE_NAME", "MA_CURRENT_HOST_IP", "XDL_IP", "HOST_IP")
IN_A_POD = "KUBERNETES_SERVICE_HOST"
POD_ADDRESSES = ("POD_IP", "MA_CURRENT_IP")
MOST_OF_HOST = 80
LEAST_NAME = 4
MOST_OF_NAME = 40
_OF_A_SERVER = re.compile(
    r"(\0--?(?:[a-z]+[-_])*(?:rank|index|host|hostname|addr|address|ip)[=\0])[^\0]*", re.IGNORECASE
)
"""An option that each server may give a value of its own."""
_ADDRESS = re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b")


class PeersMeeting(Struct, frozen=True):
    """Where the servers of the job meet, and what holds there; times in seconds.

    ``etcd`` makes a client; what it raises is raised by ``Peers``, too. ``name`` is that of the
    job. ``state_file`` is this server's: beside it is kept at which place it is. ``settings`` is
    what must not differ between servers. ``patience`` is that of the ranks of this one. ``verdict``
    is how long a failure waits for the word of the cluster; 0: none is followed, or not waited for.
    ``may_move``: another rank table may hold this server elsewhere, and more servers, or fewer. A
    job of more than ``few`` servers reads little at each change. ``host`` names this one to people.
    ``machine`` is that of its failures; empty: the one that its kernel tells. ``leave_after`` M of
    the last N first failures (M, N) a server leaves its place to a spare; M is 0: never. ``steps``
    are shared with the other servers; None: nobody reads them here. ``version`` is that of this
    program.
    """

    etcd: Callable[[], AbstractAsyncContextManager[Etcd]]
    name: str
    state_file: Path
    settings: str
    budget: RestartBudget
    patience: Patience
    ttl: float
    fence: float
    timeout: float
    verdict: float = 0.0
    may_move: bool = False
    few: int = FEW
    host: str = ""
    machine: str = ""
    leave_after: tuple[int, int] = (0, 0)
    steps: StepsOfJob | None = None
    facts: Callable[[], Awaitable[Facts]] | None = None
    version: str = __version__


def settings_of(meeting: PeersMeeting, servers: int) -> str:
    """What so many servers must have in common.

    Of many the version, too: they put other records than few do, which another version may not
    read. Where the rank table may bring more servers later, that cannot be asked for.
    """
    is_many = servers > meeting.few and not meeting.may_move
    return f"{meeting.settings} {VERSION}{meeting.version}" if is_many else meeting.settings


def host_told(environ: Mapping[str, str]) -> str:
    """The pod, its node and its address, as variables of the platform tell them; else the host."""

    def told(names: Sequence[str]) -> str | None:
        return next(filter(None, map(environ.get, names)), None)

    pod, host, address = map(told, (POD_NAMES, NODES, POD_ADDRESSES))
    words = [f"pod {pod}" if pod else node()]
    words += [f"node {host}"] if host else []
    words += [f"address {address}"] if address else []
    return ", ".join(word[:MOST_OF_HOST] for word in words if word.isprintable())


def machine_told(environ: Mapping[str, str]) -> str:
    """What names this machine to the job, whatever container it runs: the node, or the host.

    Empty where neither is told: the host name of a pod is that of the pod, on any node.
    """
    if told := next(filter(None, map(environ.get, NODES)), None):
        return told[:MOST_OF_HOST]
    return "" if any(map(environ.get, (*POD_NAMES, IN_A_POD))) else node()[:MOST_OF_HOST]


def command_told(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The name of its script and a digest: it may hold secrets.

    What may be the server's own does not count: its names, addresses, ``--node_rank 3``.
    """
    program, *words = command
    text = "\0".join((PurePath(program).name.rstrip("0123456789."), *words))
    names = (node(), *(environ.get(name, "") for name in OWN_NAMES))
    for own in sorted(names, key=len, reverse=True):
        if len(own) > LEAST_NAME and any(map(str.isdigit, own)):
            text = text.replace(own, "*")
    text = _ADDRESS.sub("*", _OF_A_SERVER.sub(r"\1*", text))
    digest = sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
    script = next((word for word in words if word.endswith(".py")), program)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(script).name)[:MOST_OF_NAME]
    return f"command={name}:{digest}"
