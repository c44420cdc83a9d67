"""The variables by which ranks find the notify socket."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.cluster.rank_table import Entry
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.life import Equip, Start
from ascend_supervisor.notify_socket.bound_socket import LONGEST, file_beside, planned_address
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.planner import notify_variables
from ascend_supervisor.program.premises import limits_of
from ascend_supervisor.settings.options import METHODS
from ascend_supervisor.settings.precedence import Settings
from tests.job_settings import settings

FOUND = standalone_table(2)
START = Start(0, FOUND, 0, FOUND.table.entries[0], 0)
SPEC = ProcessSpec(("x",), PurePath("/"), PurePath("/log"), {"A": "1", "NOTIFY_SOCKET": "/other"})


def equip_of(read: Settings, address: str | None, start: Start) -> Equip:
    limits = limits_of(read)
    must_notify = limits.must_notify
    return notify_variables(read.method, limits.watchdog, address, start, must_notify=must_notify)


def variables(*options: str, address: str | None = "/here") -> dict[str, str | None]:
    equip = equip_of(settings(*options), address, START)
    return dict(equip(SPEC).environ)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "once"])
def test_with_every_method_ranks_find_the_socket(method):
    assert variables("--method", method) == {
        "A": "1",
        "NOTIFY_SOCKET": "/here",
        "WATCHDOG_USEC": None,
        "WATCHDOG_PID": None,
    }


@pytest.mark.parametrize(
    ("seconds", "microseconds"), [("90", "90000000"), ("1.5", "1500000"), ("0.0000001", "1")]
)
def test_the_watchdog_is_told_in_microseconds(seconds, microseconds):
    assert variables("--watchdog", seconds)["WATCHDOG_USEC"] == microseconds


def test_a_command_that_starts_its_ranks_itself_keeps_its_environment():
    assert variables("--method", "once") == SPEC.environ


@pytest.mark.parametrize("option", ["--watchdog", "--startup-timeout"])
def test_unless_an_option_needs_messages(option):
    assert variables("--method", "once", option, "9")["NOTIFY_SOCKET"] == "/here"


def test_without_a_socket_ranks_find_none_and_no_watchdog_can_be_had():
    assert variables(address=None)["NOTIFY_SOCKET"] is None
    with pytest.raises(Unavailable, match="--watchdog needs a Unix socket"):
        variables("--watchdog", "9", address=None)


def test_ranks_that_mpirun_starts_on_other_servers_cannot_be_watched():
    table = replace(FOUND.table, world_size=4, entries=(*FOUND.table.entries, Entry((), "other")))
    start = replace(START, found=replace(FOUND, table=table))
    asked = settings("--method", "mpirun", "--watchdog", "9")
    with pytest.raises(SettingsRefused, match="on several servers: their ranks get no NOTIFY_SOCK"):
        equip_of(asked, "/here", start)
    equip_of(asked, "/here", START)
    equip_of(settings("--method", "mpirun"), "/here", start)


def test_a_path_is_an_address_as_long_as_clients_can_connect_to_it():
    longest = PurePath("/", "x" * (LONGEST - len("/.notify")))
    assert file_beside(longest) == longest.with_name(f"{longest.name}.notify")
    assert planned_address(longest) == f"{longest}.notify"
    for longer in (longest.with_name(f"{longest.name}x"), PurePath("/", "\u8bad" * 34)):
        assert file_beside(longer) is None
        assert planned_address(longer) == "@ascend_supervisor.<random>"
