"""Which entry of a rank table is this machine; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ascend_supervisor.cluster import volcano
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable, ip_of
from ascend_supervisor.errors import Refusal, SettingsRefused, TableRefused
from ascend_supervisor.job_files import HOST_NAME_BYTES
from ascend_supervisor.phrases import more
from ascend_supervisor.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MOST_CANDIDATES = 20
INDEX = "VC_TASK_INDEX"


class JobSize(Struct, frozen=True):
    """What variables say of the job, with which a rank table must agree; None: nothing.

    ``evidence`` are these variables and their values.
    """

    evidence: str
    devices: int | None = None
    devices_here: int | None = None
    pods: int | None = None


class Identity(Struct, frozen=True):
    """What identifies this machine: explicit options, and variables of its environment.

    ``known`` holds environment variables and their values, the most trustworthy first. The rest
    holds what told a number, and the number: ``place`` is the one among Volcano's hosts, where a
    job has several tasks, ``number`` that of the pod, and ``first_rank`` that of its first rank.
    ``advice`` says what would tell more.
    """

    pod_name: str | None = None
    server_id: str | None = None
    node_rank: int | None = None
    known: tuple[tuple[str, str], ...] = ()
    size: JobSize | None = None
    place: volcano.PodPlace | None = None
    number: tuple[str, str] | None = None
    first_rank: tuple[str, int] | None = None
    advice: str = ""

    @property
    def is_explicit(self) -> bool:
        """Whether an option says which entry it is."""
        return (self.pod_name, self.server_id, self.node_rank) != (None, None, None)


def identity_of(
    environ: Mapping[str, str],
    pod_name: str | None = None,
    server_id: str | None = None,
    node_rank: int | None = None,
    *,
    under_mpirun: bool = False,
    size: JobSize | None = None,
    number: tuple[str, str] | None = None,
    first_rank: tuple[str, int] | None = None,
) -> Identity:
    """``size`` is what variables say of the job, if a rank table must agree with it.

    ``number`` is a variable that numbers the pods of this job, and its value. It counts only if the
    table has no names (2.0), because a named table may have another order. ``first_rank`` decides
    between pods of one machine.
    """
    names = _UNDER_MPIRUN if under_mpirun else _VARIABLES
    known = {name: environ[name] for name in names if environ.get(name)}
    place, advice = None, ""
    if volcano.has_tasks(environ):
        known = {name: value for name, value in known.items() if name not in volcano.INDICES}
        place = volcano.place(environ)
        advice = "" if place else volcano.unknown_place(environ)
    return Identity(
        pod_name,
        server_id,
        node_rank,
        tuple(known.items()),
        size,
        place=place,
        number=number,
        first_rank=first_rank,
        advice=advice,
    )


def find_entry(table: RankTable, identity: Identity) -> tuple[int, Entry]:
    """The node rank and the entry of this machine; raises TableRefused rather than guess.

    The table must agree with what variables say of the job: else it belongs to another run.
    """
    if not table.entries:
        raise TableRefused("the rank table is completed, but lists no server; see what wrote it")
    node_rank, entry = _matching_entry(table, identity)
    if identity.size is not None:
        _check_size(table, entry, identity.size)
    return node_rank, entry


def _check_size(table: RankTable, entry: Entry, size: JobSize) -> None:
    with_devices = sum(bool(entry.devices) for entry in table.entries)
    compared = (
        (size.devices, table.world_size, "devices"),
        (size.devices_here, len(entry.devices), "devices of this machine"),
        (size.pods, with_devices, "entries with devices"),
    )
    for expected, found, what in compared:
        if expected not in (None, found):
            raise TableRefused(
                f"the table holds {found} {what}, but {size.evidence}: it may be left over from an "
                "earlier run; see that the cluster writes a new one, or unset these variables"
            )


def _matching_entry(table: RankTable, identity: Identity) -> tuple[int, Entry]:
    """As ``find_entry``, whatever variables say of the job.

    If variables declare the cluster, it raises SettingsRefused for the one that is missing.

    Explicit options must match. A variable that matches nothing is skipped; if it matches several
    entries (two pods of a host), the next variable decides among these. But if the platform gives
    the pod's name for certain, a table of pods without that name belongs to another run; so does
    one without the host's address, where only a number would tell the entry.
    """
    entries = list(enumerate(table.entries))
    left, tried, strange = entries, [], ""
    for option, matches, value in _explicit(identity):
        tried.append(f"{option} {shown(value)}")
        left = [place for place in left if matches(*place, value)]
        if not left:
            raise TableRefused(f"no entry matches {' and '.join(tried)}; {_listing(entries)}")
    for variable, matches, value in _clues(table, identity):
        if len(left) < 2 or (matches is _first_rank and not _on_one_machine(left)):  # noqa: PLR2004
            continue
        if strange and matches is _node_rank and len(left) == len(entries):
            raise _left_over(strange, entries)
        tried.append(f"{variable} {shown(value)}")
        matching = [place for place in left if matches(*place, value)]
        if not matching and variable in _SURE and table.format is Format.TEMPLATE_2:
            raise _left_over(f"no pod of the table is {shown(value)} ({variable})", entries)
        if not matching and variable in _ADDRESSES and _tells_hosts(table.entries, value):
            strange = f"no server of the table has the address {shown(value)} ({variable})"
        left = matching or left
    if len(left) == 1:
        return left[0]
    if table.format is Format.DECLARED:
        raise SettingsRefused(_without_index(len(entries), identity))
    raise TableRefused(
        f"cannot tell which entry is this machine{_tried(tried)}; {_listing(left)}; "
        f"{_advice(table, identity)}tell it by --pod-name, --server-id or --node-rank"
    )


def _left_over(found: str, entries: list[tuple[int, Entry]]) -> TableRefused:
    return TableRefused(
        f"{found}: the table may be left over from an earlier run; {_listing(entries)}; see that "
        "the cluster writes a new one, or tell the entry by --node-rank"
    )


def _clues(table: RankTable, identity: Identity) -> Iterator[tuple[str, _Match, str]]:
    """What tells the entry, the most trustworthy first: a variable, what it matches, its value."""
    for variable, value in identity.known:
        yield variable, _VARIABLES.get(variable, _node_rank), value
    if identity.first_rank is not None:
        yield identity.first_rank[0], _first_rank, str(identity.first_rank[1])
    if identity.place is not None:
        yield identity.place.told_by, _pod_name, identity.place.pod_name
        number = identity.place.numbers.get(len(table.entries))  # it may hold the workers alone
        if number is not None and not any(entry.pod_name for entry in table.entries):
            yield identity.place.told_by, _node_rank, str(number)
    if identity.number is not None and table.format is Format.A5:
        yield identity.number[0], _node_rank, identity.number[1]


def doubts(table: RankTable, identity: Identity) -> tuple[str, ...]:
    """Warnings: what is known for certain of this machine, and its entry says otherwise."""
    if identity.is_explicit:
        return ()
    try:
        place = _matching_entry(table, identity)
    except Refusal:
        return ()  # it is told where the entry is needed
    here = _line(*place).partition(" (")[2].rstrip(")")
    return tuple(
        f"{variable} is {shown(value)}, but this machine's entry is {here}: the table may be left "
        "over from an earlier run"
        for variable, value in identity.known
        if _contradicts(place[1], variable, value)
    )


def _contradicts(entry: Entry, variable: str, value: str) -> bool:
    if variable in _SURE:
        return entry.pod_name not in (None, value)
    if variable not in _ADDRESSES or not _tells_hosts((entry,), value):
        return False
    return not _host(0, entry, value)


def _tells_hosts(entries: Sequence[Entry], address: str) -> bool:
    """Whether each entry has an address of its host that can be compared with ``address``."""
    return (
        all(
            any(known and _version(known) == _version(address) for known in _hosts(entry))
            for entry in entries
            if entry.devices
        )
        and _version(address) is not None
    )


def _version(address: str) -> int | None:
    """Of IP; None for what is no address."""
    found = ip_of(address)
    return None if found is None else found.version


def _hosts(entry: Entry) -> tuple[str | None, ...]:
    return entry.server_id, entry.host_ip, entry.server_ip


def _on_one_machine(left: Sequence[tuple[int, Entry]]) -> bool:
    hosts = {entry.host_ip or entry.server_ip or entry.server_id for _, entry in left}
    return len(hosts) == 1 and None not in hosts


def _tried(names: Sequence[str]) -> str:
    if names:
        return f", tried {', '.join(names)}"
    return f": none of these variables is set: {', '.join(_VARIABLES)}"


_Match: TypeAlias = "Callable[[int, Entry, str], bool]"


def _pod_name(_: int, entry: Entry, name: str) -> bool:
    return entry.pod_name == name


def _host(_: int, entry: Entry, name: str) -> bool:
    return name in _hosts(entry)


def _pod_ip(_: int, entry: Entry, name: str) -> bool:
    return name in (entry.container_ip, entry.pod_ip)


def _pod_uid(_: int, entry: Entry, name: str) -> bool:
    return entry.server_id == name


def _first_rank(_: int, entry: Entry, name: str) -> bool:
    return bool(entry.devices) and str(entry.devices[0].rank) == name


def _node_rank(node_rank: int, _: Entry, name: str) -> bool:
    return str(node_rank) == name


_VARIABLES: Mapping[str, _Match] = {
    "MA_CURRENT_INSTANCE_NAME": _pod_name,
    "POD_NAME": _pod_name,
    "HOSTNAME": _pod_name,
    "MA_CURRENT_HOST_IP": _host,
    "XDL_IP": _host,
    "HOST_IP": _host,
    "POD_IP": _pod_ip,
    "POD_UID": _pod_uid,
    "VC_TASK_INDEX": _node_rank,
    "MA_TASK_INDEX": _node_rank,
    "VK_TASK_INDEX": _node_rank,
    "MS_NODE_RANK": _node_rank,
}
"""The variables that identify a machine, the most trustworthy first, and what they match."""

_SWAPPED = {"VC_TASK_INDEX": "MA_TASK_INDEX", "MA_TASK_INDEX": "VC_TASK_INDEX"}
_UNDER_MPIRUN = tuple(_SWAPPED.get(name, name) for name in _VARIABLES)
"""Their order in ModelArts' run_mpi.sh."""

_SURE = frozenset({"MA_CURRENT_INSTANCE_NAME", "POD_NAME"})
_ADDRESSES = frozenset({"MA_CURRENT_HOST_IP", "XDL_IP"})
"""Of the host, as rank tables give it."""


def _explicit(identity: Identity) -> Iterator[tuple[str, _Match, str]]:
    if identity.pod_name is not None:
        yield "--pod-name", _pod_name, identity.pod_name
    if identity.server_id is not None:
        yield "--server-id", _host, identity.server_id
    if identity.node_rank is not None:
        yield "--node-rank", _node_rank, str(identity.node_rank)


def _advice(table: RankTable, identity: Identity) -> str:
    host = dict(identity.known).get("HOSTNAME", "")
    longer = [
        entry.pod_name for entry in table.entries if len(entry.pod_name or "") > HOST_NAME_BYTES
    ]
    if any(name and name[:HOST_NAME_BYTES].rstrip("-.") == host for name in longer):
        return (
            f"HOSTNAME holds only the first {HOST_NAME_BYTES} characters of the pod's name; set "
            "POD_NAME to all of it (metadata.name), or "
        )
    return f"{identity.advice}; or " if identity.advice else ""


def _without_index(servers: int, identity: Identity) -> str:
    found = dict(identity.known).get(INDEX)
    return (
        f"{INDEX}: expected this server's number, from 0 to {servers - 1}, found "
        f"{'nothing' if found is None else shown(found)}; set it, or give --node-rank"
    )


def _listing(entries: list[tuple[int, Entry]]) -> str:
    lines = [_line(*place) for place in entries[:_MOST_CANDIDATES]]
    return f"the candidates are {', '.join([*lines, *more(len(entries) - _MOST_CANDIDATES)])}"


def _line(node_rank: int, entry: Entry) -> str:
    host = entry.host_ip or entry.server_ip
    names = {"pod": entry.pod_name, "server": entry.server_id, "host": host}
    known = "".join(f" {noun} {shown(name)}" for noun, name in names.items() if name is not None)
    return f"node rank {node_rank}{f' ({known[1:]})' if known else ''}"
