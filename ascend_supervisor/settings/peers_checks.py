"""Settings that each can be read, but not be had together, or not here; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.peers_options import JOB_VARIABLES, PASSWORD, OwnEtcd
from ascend_supervisor.settings.process_recovery import other_actors
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.settings.sources import Given
from ascend_supervisor.settings.user_variables import without_rank

ROOM_SECONDS = 10.0
"""Of the fence, beyond the TTL: for the last tries to reach etcd, and for killing the ranks."""
OF_AN_ETCD = ("peers-ca", "peers-user", "peers-password-file")
"""Options for an etcd that runs already."""
_BY_NAME = {option.name: option for option in OPTIONS}

_Givens = Mapping[str, Given]


def peers_faults(given: _Givens, environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each rule that is broken."""
    yield from _without_table(given)
    if "peers" not in given:
        yield from _without_effect(given)
        return
    yield from _times(given)
    yield from _without_spares(given)
    if isinstance(given["peers"].value, OwnEtcd):
        yield from _not_with_own(given, environ)
    else:
        yield from _login(given, environ)
        yield from _secrecy(given)
    if "peers-job" not in given and not any(environ.get(name) for name in JOB_VARIABLES):
        yield (
            f"{given['peers'].where}: neither {' nor '.join(JOB_VARIABLES)} names the job, by "
            "which its servers find each other; write --peers-job=NAME, the same on all servers"
        )


def _without_table(given: _Givens) -> Iterator[str]:
    """What cannot be had with --servers."""
    servers = given.get("servers")
    if servers is None or servers.value is None:
        return
    if "peers" not in given:
        yield (
            f"{servers.where}: the servers find each other in an etcd, and none is named; add "
            "--peers=URL, or leave this out"
        )
    peers = given.get("peers")
    if peers and peers.value is OwnEtcd.FIRST:
        yield (
            f"{servers.where} and {peers.where} first exclude each other: the servers must meet "
            "in an etcd before one of them is the first; name an etcd that runs already, such as "
            "--peers=http://HOST:2379"
        )
    for name in ("rank-table", "pod-name"):
        if word := given.get(name):
            yield (
                f"{servers.where} and {word.where} exclude each other: the servers make the rank "
                "table, or somebody else does; leave one out"
            )
    follow = given.get("follow-cluster")
    if follow and follow.value:
        yield (
            f"{servers.where} and {follow.where} exclude each other: a cluster that is followed "
            "writes the rank table; leave one out"
        )
    method, check, index = given.get("method"), given.get("check"), given.get("node-rank")
    if method and method.value == "once":
        yield (
            f"{servers.where}: with {method.where} once nobody reads a rank table; leave one out"
        )
    if check and check.value:
        yield (
            f"{servers.where} and {check.where} exclude each other: what would be started is known "
            "when the servers have met; leave one out"
        )
    if index and index.value >= servers.value:
        yield (
            f"{index.where}: expected a number from 0 to {servers.value - 1}, because "
            f"{servers.where} is {servers.value}, found {index.value}; leave it out for a spare"
        )


def _without_effect(given: _Givens) -> Iterator[str]:
    for name, word in given.items():
        if name.startswith("peers-"):
            yield f"{word.where} has no effect without --peers; add that, or leave this out"


def _without_spares(given: _Givens) -> Iterator[str]:
    failures, servers = given.get("peers-failures"), given.get("servers")
    has_spares = servers is not None and servers.value is not None
    if failures and failures.source != "file" and not has_spares:  # a file may serve many jobs
        yield (
            f"{failures.where} has no effect without --servers, because only a job with that has "
            "spares; add that, or leave this out"
        )


def _not_with_own(given: _Givens, environ: Mapping[str, str]) -> Iterator[str]:
    """An etcd of the job's own is served over http, without users."""
    secrets = [given[name].where for name in OF_AN_ETCD if name in given]
    if environ.get(PASSWORD):
        secrets.append(PASSWORD)
    for where in secrets:
        yield (
            f"{where} has no effect with {given['peers'].where} first, whose etcd has neither "
            "users nor TLS; name an etcd that has them, or leave this out"
        )
    follow = given.get("follow-cluster")
    if follow and follow.value:
        yield (
            f"{follow.where} and {given['peers'].where} first exclude each other: a cluster may "
            "move the first server, and its etcd with it; name an etcd that runs beside the job"
        )


def _times(given: _Givens) -> Iterator[str]:
    ttl, fence, timeout = (_seconds(given, f"peers-{name}") for name in ("ttl", "fence", "timeout"))
    if fence <= ttl + ROOM_SECONDS:
        yield (
            f"{_told(given, 'peers-fence')} is not more than {_told(given, 'peers-ttl')} and "
            f"{ROOM_SECONDS:g} s; raise the first or lower the second"
        )
    if timeout <= fence + ttl:
        yield (
            f"{_told(given, 'peers-timeout')} is not more than {_told(given, 'peers-fence')} and "
            f"{_told(given, 'peers-ttl')} together; raise it"
        )
    follow = given.get("follow-cluster")
    if follow and follow.value and timeout <= _seconds(given, "cluster-verdict"):
        yield (
            f"{_told(given, 'peers-timeout')} is not more than {_told(given, 'cluster-verdict')}, "
            "for which a failure may wait; raise the first or lower the second"
        )
    delays = [name for name in ("restart-delay-max", "restart-delay") if name in given]
    longest = max([*delays, "restart-delay-max"], key=lambda name: _seconds(given, name))
    if timeout <= _seconds(given, longest):
        yield (
            f"{_told(given, 'peers-timeout')} is not more than {_told(given, longest)}, for which "
            "all servers wait before a restart; raise the first or lower the second"
        )


def _login(given: _Givens, environ: Mapping[str, str]) -> Iterator[str]:
    user, file = given.get("peers-user"), given.get("peers-password-file")
    in_variable = bool(environ.get(PASSWORD))
    if user and not file and not in_variable:
        yield (
            f"{user.where}: the password of this user is missing; write --peers-password-file=FILE "
            f"or set {PASSWORD}"
        )
    if file and not user:
        yield f"{file.where}: the user of this password is missing; write --peers-user=NAME"
    if in_variable and not user:
        yield f"{PASSWORD}: the user of this password is missing; write --peers-user=NAME"
    if file and in_variable:
        yield f"{file.where} and {PASSWORD} exclude each other; leave one out"


def _secrecy(given: _Givens) -> Iterator[str]:
    ca, port = given.get("peers-ca"), given.get("peers-port")
    if port and port.source != "file":  # a file may serve many jobs
        yield (
            f"{port.where} has no effect without --peers first; write the port in the URLs of "
            f"{given['peers'].where}, or leave this out"
        )
    if ca and not any(endpoint.is_tls for endpoint in given["peers"].value):
        yield (
            f"{ca.where}: none of the URLs of {given['peers'].where} is https; write https:// "
            "there, or leave this out"
        )


def _seconds(given: _Givens, name: str) -> Any:
    return given[name].value if name in given else _BY_NAME[name].default_value


def _told(given: _Givens, name: str) -> str:
    """Such as --peers-ttl (15 s)."""
    where = given[name].where if name in given else _BY_NAME[name].flag
    return f"{where} ({_seconds(given, name):g} s)"


SHARED_OUTPUT: frozenset[Method] = frozenset({"torchrun", "mpirun", "once"})
"""What the ranks write comes through one pipe, without saying whose it is."""


def contradictions(
    given: Mapping[str, Given], environ: Mapping[str, str], unreadable: Collection[str] = ()
) -> Iterator[str]:
    """A sentence for each; ``unreadable`` are names of options whose values are refused already."""
    yield from _between_options(given)
    yield from _not_to_follow(given, environ)
    if "peers" not in unreadable:
        yield from peers_faults(given, environ)


def _between_options(given: Mapping[str, Given]) -> Iterator[str]:
    alone, table = given.get("standalone"), given.get("rank-table")
    if alone and alone.value is not None and table:
        yield (
            f"{alone.where} and {table.where} exclude each other: one makes a rank table, "
            "the other reads one; leave one out"
        )
    method, variables = given.get("method"), given.get("rank-env")
    if method and variables:
        for fault in without_rank(variables.value, method.value):
            yield f"{variables.where}: {fault}"
    silence = given.get("rank-hang-timeout")
    if silence and method and method.value in SHARED_OUTPUT:
        yield (
            f"{silence.where}: with --method {method.value} all ranks write to one pipe, so that "
            "one silent rank cannot be noticed; use --hang-timeout or --watchdog"
        )
    delay, most = given.get("restart-delay"), given.get("restart-delay-max")
    if delay and most and delay.value > most.value:
        yield (
            f"{delay.where} is {delay.value:g} seconds, more than the {most.value:g} of "
            f"{most.where}; lower the first or raise the second"
        )


def _not_to_follow(given: Mapping[str, Given], environ: Mapping[str, str]) -> Iterator[str]:
    """Why --follow-cluster cannot be had here, if it was asked for."""
    follow, alone = given.get("follow-cluster"), given.get("standalone")
    if follow is None or not follow.value:
        return
    if alone and alone.value is not None:
        yield (
            f"{follow.where} and {alone.where} exclude each other: one follows the schedulers of "
            "a cluster, the other has none; leave one out"
        )
    if actors := other_actors(environ):
        yield (
            f"{follow.where}: process-level recovery is on ({'; '.join(map(str, actors))}): it "
            "keeps the ranks that are left, which this option would end; leave the option out, or "
            "turn the recovery off in all pods of the job"
        )
