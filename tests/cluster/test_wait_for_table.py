"""Waiting for the table, with the ways in which real writers write it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import NotReady
from ascend_supervisor.cluster.table_file import (
    FILE_NAMES,
    IS_DIRECTORY,
    IS_NO_FILE,
    SeenFile,
    no_table,
    other_sources,
    read_table,
    table_places,
)
from ascend_supervisor.cluster.wait_for_table import LASTING_SECONDS, TableFile, Unready, _Waiting
from ascend_supervisor.errors import TableRefused, TableTimeout
from ascend_supervisor.events import Event
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.rank_table import RankTableUnwatched, RankTableWaiting
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.tasks.race import first
from tests.clocks import LeapingClock, StridingClock
from tests.rank_tables import COMMENTED, data

DATA = Path(__file__).parents[1] / "data" / "rank_tables"
COMPLETED = (DATA / "template2-one-card.json").read_bytes()
INITIALIZING = (DATA / "template2-initializing.json").read_bytes()
PATIENCE = 20.0
POLL = 0.02


class Waiter:
    """A wait under way, and what it tells."""

    def __init__(self, *places: Path, clock: Clock | None = None, others: str = "") -> None:
        self.events: list[Event] = []
        self.told = anyio.Event()
        self.file = TableFile(
            places, clock or MonotonicClock(), self.report, others, poll_seconds=POLL
        )

    def report(self, event: Event) -> None:
        self.events.append(event)
        self.told.set()

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, RankTableWaiting)]

    async def sees(self, change: Callable[[], object]) -> bytes:
        """Make ``change`` once it waits; gives the document that it found."""

        async def wait() -> bytes:
            return (await self.file.wait(PATIENCE)).table.document

        async def make_change() -> bytes:
            await self.told.wait()
            change()
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.fail_after(PATIENCE):
            return await first(wait, make_change)


def converted(data: bytes) -> bytes:
    table = parse(data)
    assert not isinstance(table, NotReady)
    return table.document


async def test_a_table_that_is_there_is_taken_without_a_word(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(COMPLETED)
    waiter = Waiter(path)
    found = await waiter.file.wait(PATIENCE)
    assert (found.path, found.table.document) == (path, converted(COMPLETED))
    assert waiter.events == []


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (b"", "the file is empty"),
        (COMPLETED[:200], "not valid JSON yet: "),
        (b'{"status": "compl\xff', "not valid JSON yet: "),
        (INITIALIZING, "status is 'initializing'"),
        (None, "there is no such file"),
    ],
)
async def test_what_is_torn_empty_or_missing_is_waited_for(tmp_path, before, reason):
    path = tmp_path / "table.json"
    if before is not None:
        path.write_bytes(before)
    waiter = Waiter(path)
    assert await waiter.sees(lambda: path.write_bytes(COMPLETED)) == converted(COMPLETED)
    assert waiter.reasons[0].startswith(reason)


async def test_a_directory_that_is_made_later_is_looked_into(tmp_path):
    def make() -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "hccl.json").write_bytes(COMPLETED)

    assert await Waiter(tmp_path / "config").sees(make) == converted(COMPLETED)


async def test_a_symlink_swap_as_in_a_config_map_is_seen_every_time(tmp_path):
    def swap(name: str, content: bytes) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "jobstart_hccl.json").write_bytes(content)
        (tmp_path / "..new").symlink_to(name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    swap("..1", INITIALIZING)
    (tmp_path / "jobstart_hccl.json").symlink_to("..data/jobstart_hccl.json")
    waiter = Waiter(tmp_path)

    def several() -> None:
        swap("..2", INITIALIZING)
        swap("..3", COMPLETED)

    assert await waiter.sees(several) == converted(COMPLETED)


async def test_a_file_that_never_changes_because_of_its_mount_is_told_so(tmp_path):
    if os.geteuid():
        pytest.skip("a bind mount needs root")
    source, target = tmp_path / "source.json", tmp_path / "table.json"
    source.write_bytes(INITIALIZING)
    target.touch()
    if subprocess.run(["mount", "--bind", source, target], check=False).returncode:
        pytest.skip("no bind mount can be made here")
    try:
        source.unlink()
        with pytest.raises(TableTimeout, match=r"subPath"):
            await Waiter(target).file.wait(2.0)
    finally:
        subprocess.run(["umount", target], check=True)


async def test_without_file_events_the_poll_sees_it(tmp_path):
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    if not os.access(limit, os.W_OK):
        pytest.skip("the limit of inotify instances needs root")
    path = tmp_path / "table.json"
    path.write_bytes(INITIALIZING)
    usual = limit.read_text()
    limit.write_text("0")
    try:
        waiter = Waiter(path)
        assert await waiter.sees(lambda: path.write_bytes(COMPLETED)) == converted(COMPLETED)
    finally:
        limit.write_text(usual)


async def test_a_symlink_loop_and_a_file_without_permission_are_waited_for(tmp_path):
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(TableTimeout, match=r"symbolic links; allow more time with --rank-table-t"):
        await Waiter(loop).file.wait(2.0)


def test_descriptors_that_ran_out_are_not_blamed_on_the_cluster(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(COMPLETED)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with path.open("rb") as file:  # the highest descriptor, or below it
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), limits[1]))
        try:
            seen = read_table([path])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert seen.content == NotReady(
        "it cannot be read: Too many open files; raise ulimit -n", advice=""
    )


async def test_where_no_table_is_every_place_is_named_with_what_it_holds(tmp_path):
    empty, filled, missing = (tmp_path / name for name in ("empty", "filled", "missing"))
    empty.mkdir()
    filled.mkdir()
    for name in ("rank.json", "hccl.jsn", "\x1b[2J", *(f"z{number}" for number in range(8))):
        (filled / name).touch()
    waiter = Waiter(empty, filled, missing / "hccl.json", others="nothing else told of a cluster")
    with pytest.raises(TableTimeout) as raised:
        await waiter.file.wait(2.0)  # on a busy machine the first look takes a while
    sentence = (
        "there is no such file; looked for "
        f"{empty}/jobstart_hccl.json or {empty}/hccl.json (the directory is empty), "
        f"{filled}/jobstart_hccl.json or {filled}/hccl.json (the directory holds '\\x1b[2J', "
        "'hccl.jsn', 'rank.json', 'z0', 'z1' and 6 more), "
        f"{missing}/hccl.json (there is no such directory); "
        "nothing else told of a cluster"
    )
    assert waiter.reasons == [sentence]
    assert str(raised.value) == (
        f"{empty}/jobstart_hccl.json: expected a completed rank table within 2 s, found: "
        f"{sentence}; see whether the cluster has placed all pods, or allow more time with "
        "--rank-table-timeout"
    )
    assert not any(isinstance(event, RankTableUnwatched) for event in waiter.events)


async def test_what_else_a_directory_holds_is_no_news(tmp_path):
    waiter = Waiter(tmp_path)

    async def wait() -> str:
        with pytest.raises(TableTimeout) as raised:
            await waiter.file.wait(2.5)
        return str(raised.value)

    async def fill() -> str:
        await waiter.told.wait()
        (tmp_path / "other").touch()
        await anyio.sleep_forever()
        raise AssertionError

    assert "(the directory holds 'other')" in await first(wait, fill)
    (reason,) = waiter.reasons
    assert "(the directory is empty)" in reason


def test_a_huge_directory_is_not_read_to_its_end(tmp_path):
    for number in range(1100):
        (tmp_path / f"{number}").touch()
    found = read_table([tmp_path]).content
    assert isinstance(found, NotReady)
    assert " and at least 995 more)" in found.details


def test_a_directory_that_is_none_is_told_with_its_error(tmp_path):
    found = no_table([tmp_path / "file" / "hccl.json"], "")
    assert "(there is no such directory)" in found.details
    (tmp_path / "file").touch()
    found = no_table([tmp_path / "file" / "hccl.json"], "")
    assert "(the directory cannot be read: Not a directory)" in found.details


def test_npus_without_any_mount_ask_for_standalone(tmp_path):
    """As in a MindSpore job of a single Worker, which gets no variables from Ascend Operator."""
    file = tmp_path / "config" / "hccl.json"
    assert no_table([file], "", npus=8).reason == (
        "--standalone is missing, if this machine is all of the job: no directory of a table is "
        "mounted, and 8 NPUs are here"
    )
    file.parent.mkdir()
    for npus in (0, 8):
        assert no_table([file], "", npus=npus).reason == "there is no such file"


NOTHING_SET = (
    "no variables of Ascend Operator or Kubeflow are set either (WORLD_SIZE, MS_ROLE, "
    "CM_WORKER_SIZE, PET_NNODES); without a cluster, use --standalone"
)
NOT_COUNTED = "the variables of a PyTorch job do not count, because "


@pytest.mark.parametrize(
    ("environ", "hint", "is_named", "text"),
    [
        ({}, None, False, NOTHING_SET),
        ({"MS_ROLE": ""}, None, False, NOTHING_SET),
        (
            {"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "8"},
            None,
            False,
            "MA_NUM_HOSTS and MA_NUM_GPUS count with --method torchrun, msrun, mindspore, mpirun, ",
        ),
        ({}, None, True, "without a cluster, use --standalone"),
        ({"WORLD_SIZE": "4"}, "unset RANK_TABLE_FILE", False, "unset RANK_TABLE_FILE"),
        (
            {"WORLD_SIZE": "4", "RANK": "1"},
            None,
            False,
            f"{NOT_COUNTED}LOCAL_WORLD_SIZE is not set (NPUs of the job: WORLD_SIZE, ",
        ),
        ({"RANK": "1"}, None, False, f"{NOT_COUNTED}WORLD_SIZE and LOCAL_WORLD_SIZE are not set "),
        (
            {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_RUN_ID": "x"},
            None,
            False,
            "WORLD_SIZE and RANK do not count, because TORCHELASTIC_RUN_ID says that torchrun set ",
        ),
    ],
)
def test_what_else_describes_the_cluster_is_told_or_why_it_does_not(environ, hint, is_named, text):
    assert other_sources(environ, hint, is_named=is_named).startswith(text)


LASTING = (
    "not valid JSON, and unchanged for a while: line 2, column 26: a comment, which JSON does not "
    "allow"
)


async def test_a_document_that_stays_unreadable_is_told_as_such(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(data(COMMENTED))
    waiter = Waiter(path, clock=StridingClock(6.0))

    async def wait() -> bytes:
        return (await waiter.file.wait(None)).table.document

    async def correct() -> bytes:
        while f"{LASTING}; correct the document" not in waiter.reasons:
            waiter.told = anyio.Event()
            await waiter.told.wait()
        path.write_bytes(COMPLETED)
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(PATIENCE):
        assert await first(wait, correct) == converted(COMPLETED)
    assert waiter.reasons[0].startswith("not valid JSON yet: line 2, column 26: ")


async def test_the_timeout_says_what_keeps_a_document_from_being_json(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(data(COMMENTED))
    with pytest.raises(TableTimeout) as raised:
        await Waiter(path, clock=StridingClock(LASTING_SECONDS)).file.wait(LASTING_SECONDS + 1.0)
    assert str(raised.value).endswith(
        f"found: {LASTING}; correct the document, or allow more time with --rank-table-timeout"
    )


async def test_a_table_that_says_it_has_failed_is_not_blamed_on_pods(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b'{"status": "failed"}')
    waiter = Waiter(path)
    with pytest.raises(TableTimeout) as raised:
        await waiter.file.wait(1.0)
    told = "status is 'failed'; what writes it says that it has failed: see the log of that program"
    assert waiter.reasons == [told]
    assert str(raised.value).endswith(f"{told}, or allow more time with --rank-table-timeout")


async def test_a_document_that_was_just_written_may_be_torn(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b"{")
    waiter = Waiter(path)
    with pytest.raises(TableTimeout) as raised:
        await waiter.file.wait(2.0)
    assert "found: not valid JSON yet: line 1, column 2: the document ends too early; see" in str(
        raised.value
    )


@pytest.mark.parametrize(("make", "reason"), [(os.mkfifo, IS_NO_FILE), (os.mkdir, IS_DIRECTORY)])
def test_what_is_no_file_is_not_ready(tmp_path, make, reason):
    """Where a file is missing that is to be mounted, kubelet and docker make a directory."""
    place = tmp_path / "config"
    place.mkdir()
    make(place / "hccl.json")
    assert read_table([place]).content == reason


@pytest.mark.parametrize("name", FILE_NAMES)
def test_a_directory_in_the_place_of_the_file_holds_no_table(tmp_path, name):
    (tmp_path / name).mkdir()
    assert read_table([tmp_path / name]) == SeenFile(tmp_path / name, IS_DIRECTORY)


def test_a_volume_may_be_called_like_the_file_that_it_holds(tmp_path):
    """A ConfigMap that is mounted at .../hccl.json without a subPath."""
    file = tmp_path / "hccl.json" / "hccl.json"
    file.parent.mkdir()
    file.write_bytes(COMPLETED)
    assert read_table([file.parent]) == SeenFile(file, COMPLETED)


def test_a_file_comes_before_a_directory_in_the_place_of_another(tmp_path):
    (tmp_path / "jobstart_hccl.json").mkdir()
    (tmp_path / "hccl.json").write_bytes(INITIALIZING)
    assert read_table([tmp_path]) == SeenFile(tmp_path / "hccl.json", INITIALIZING)


async def test_a_table_that_is_wrong_is_refused_with_its_path(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b'{"status": "completed", "server_list": 3}')
    with pytest.raises(TableRefused, match=rf"^{path}: \$"):
        await Waiter(path).file.wait(PATIENCE)


async def test_a_table_that_becomes_wrong_while_we_wait_is_refused(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(INITIALIZING)
    waiter = Waiter(path)
    wrong = b'{"status": "completed", "server_list": 3}'
    with pytest.raises(TableRefused):
        await waiter.sees(lambda: path.write_bytes(wrong))


def test_a_file_that_is_larger_than_any_table_is_refused_unread(tmp_path):
    path = tmp_path / "table.json"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(TableRefused, match=r"at most 67108864 bytes, found 67108865"):
        read_table([path])


async def test_the_timeout_says_what_was_last_seen_and_what_to_do(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(INITIALIZING)
    with pytest.raises(TableTimeout) as raised:
        await Waiter(path).file.wait(2.0)
    assert str(path) in str(raised.value)
    assert "status is 'initializing'" in str(raised.value)
    assert "--rank-table-timeout" in str(raised.value)


@pytest.mark.parametrize(
    ("explicit", "environ", "first"),
    [
        ("/a", {"RANK_TABLE_FILE": "/b", "RANK_TABLE_FILE_V_1_0": "/c"}, "/a"),
        (None, {"RANK_TABLE_FILE": "/b", "RANK_TABLE_FILE_V_1_0": "/c"}, "/c"),
        (None, {"RANK_TABLE_FILE": "/user/config"}, "/user/config"),
        (None, {}, "/user/config/jobstart_hccl.json"),
        (None, {"RANK_TABLE_FILE": ""}, "/user/config/jobstart_hccl.json"),
    ],
)
def test_the_first_place_that_is_named_is_the_one(explicit, environ, first):
    places = table_places(explicit, environ)
    assert str(places[0]) == first
    assert len(places) == (2 if first == "/user/config/jobstart_hccl.json" else 1)


def test_a_directory_holds_the_table_under_either_name(tmp_path):
    (tmp_path / "hccl.json").write_bytes(COMPLETED)
    assert read_table([tmp_path]).path == tmp_path / "hccl.json"
    shutil.copy(tmp_path / "hccl.json", tmp_path / "jobstart_hccl.json")
    assert read_table([tmp_path]).path == tmp_path / "jobstart_hccl.json"


async def test_an_unchanged_reason_is_told_at_growing_intervals():
    events: list[Event] = []
    clock = LeapingClock()
    unready = Unready(Path("table"), NotReady("status is 'initializing'"))
    with _Waiting(unready, 1800.0, clock, events.append) as waiting:
        while clock.time <= 1800:
            waiting.tell(unready)
            await clock.sleep(1)
    *told, end = events
    assert [event.waited_seconds for event in told if isinstance(event, RankTableWaiting)] == [
        *(0, 10, 30, 70, 150, 310, 610, 910, 1210, 1510)
    ]
    assert {event.limit_seconds for event in told if isinstance(event, RankTableWaiting)} == {1800}
    assert end == WaitEnded(1801.0)
