"""The options for restarts that several servers agree on in an etcd."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from ascend_supervisor.etcd.access import (
    EXPECTED,
    Endpoint,
    Password,
    read_endpoints,
    shown_endpoints,
)
from ascend_supervisor.settings.alert_options import SECRET_VARIABLES
from ascend_supervisor.settings.kinds import PATH, PERIOD, PORT, PREFIX, Group, Kind, Option
from ascend_supervisor.settings.readers import is_denied, read_duration, read_text, read_whole

PASSWORD = f"{PREFIX}PEERS_PASSWORD"  # the name of a variable
"""No option: everybody can read a command line."""
JOB_VARIABLES = ("MINDX_TASK_ID", "JOB_ID")
LEAST_TTL = 2
MOST_FAILURES = 10
"""So many of the last ones are remembered."""

_FAILURES = re.compile(r"([0-9]{1,2})/([0-9]{1,2})")
_JOB = re.compile(r"[A-Za-z0-9._-]{1,200}")


class OwnEtcd(Enum):
    """Where the etcd of the job runs, if it has one of its own."""

    FIRST = "first"
    """Beside the supervisor of the first server, which starts and ends it."""

    def __str__(self) -> str:
        return self.value


def read_peers(found: object) -> tuple[Endpoint, ...] | OwnEtcd:
    """``first``, or the URLs of an etcd that runs already."""
    if found == OwnEtcd.FIRST.value:
        return OwnEtcd.FIRST
    try:
        return read_endpoints(found)
    except ValueError as error:
        told = str(error).replace(EXPECTED, f"{EXPECTED}, or first", 1)
        raise ValueError(told) from error


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for processes of others."""
    ours = SECRET_VARIABLES | {PASSWORD}
    return {name: value for name, value in environ.items() if name not in ours}


def password_in(environ: Mapping[str, str]) -> Password:
    """That of the variable; empty without it."""
    return Password(environ.get(PASSWORD, ""))


def read_ttl(found: object) -> int:
    """Whole seconds, as etcd counts them; it makes 2 of 1."""
    expected = f"whole seconds, at least {LEAST_TTL}, such as 15s"
    try:
        seconds = read_duration(found)
    except ValueError as error:
        raise ValueError(expected) from error
    if seconds < LEAST_TTL or seconds != int(seconds):
        raise ValueError(expected)
    return int(seconds)


def read_servers(found: object) -> int | None:
    """How many servers; None, in a file or a variable ``false`` or ``no``: it was not given."""
    return None if is_denied(found) else read_whole(found, least=1)


def read_job(found: object) -> str:
    """A name that is one part of a key."""
    if isinstance(found, str) and _JOB.fullmatch(found):
        return found
    raise ValueError("a name of letters, digits, dots, hyphens and underscores")


def read_failures(found: object) -> tuple[int, int]:
    """M and N of ``M/N``; 0 is 0/0."""
    text = str(found).strip() if isinstance(found, (str, int)) else ""
    words = _FAILURES.fullmatch("0/0" if text == "0" else text)
    count, of = map(int, words.groups()) if words else (1, 0)
    if not min(1, of) <= count <= of <= MOST_FAILURES:
        raise ValueError(f"two numbers up to {MOST_FAILURES}, such as 2/3, or 0")
    return count, of


PEERS: Group = (
    "Restarts that several servers agree on",
    (
        Option(
            "peers",
            Kind("URLS", read_peers, shown=shown_endpoints),
            "the etcd in which the servers of the job agree: its URLs with commas between, or "
            "first: the first server starts one",
            otherwise="off",
        ),
        Option("peers-port", PORT, "port of the etcd of --peers first", default="2379"),
        Option("peers-ca", PATH, "CA certificates for https, in PEM", otherwise="the system's"),
        Option(
            "peers-user", Kind("NAME", read_text), "user in etcd, if it has any", otherwise="none"
        ),
        Option(
            "peers-password-file",
            PATH,
            "the file with this user's password",
            otherwise=f"the variable {PASSWORD}",
        ),
        Option(
            "peers-ttl",
            Kind("S", read_ttl),
            "a server that etcd has not heard of for this long is lost",
            default="15",
        ),
        Option(
            "peers-fence",
            PERIOD,
            "a server that cannot reach etcd kills its ranks before this time is over, and ends",
            default="60",
        ),
        Option(
            "peers-timeout",
            PERIOD,
            "how long the servers that are ready wait for the others, before the job ends",
            default="1800",
        ),
        Option(
            "peers-job",
            Kind("NAME", read_job),
            "the job's name in etcd, the same on all its servers",
            otherwise=", else ".join(JOB_VARIABLES),
        ),
        Option(
            "peers-failures",
            Kind("M/N", read_failures),
            "with --servers: a server that was the first to fail in M of the last N failures "
            "leaves its place to a spare; 0 is off",
            default="2/3",
        ),
        Option(
            "servers",
            Kind("N", read_servers),
            "how many servers make the job, where nobody writes a rank table: they make it; more "
            "servers are spares",
        ),
    ),
)
