"""Whose messages are heard: real processes, and a generation that they belong to."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.notify_socket.listener import MOST_SOCKETS, Listener
from tests.notify_socket.hearing import MARK, SAY, Hearing
from tests.workers.test_generation import Stage


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for the socket to be a file."""
    with TemporaryDirectory(prefix="n-", dir="/tmp") as root:
        yield Path(root)


def started(source: str, **more: object) -> str:
    """A line that starts ``source`` as a child."""
    options = "".join(f", {name}={value!r}" for name, value in more.items())
    return f"child = subprocess.Popen([sys.executable, '-c', {source!r}]{options})\n"


def says(text: str) -> str:
    return f"say({text!r})\n"


def send(hearing: Hearing, text: str) -> None:
    """A message from the test itself."""
    address = hearing.variables["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(text.encode(), f"\0{address[1:]}" if address[0] == "@" else address)


async def test_a_rank_and_its_descendants_are_heard_as_that_rank(hearing: Hearing):
    speaks = SAY + says("STATUS=grandchild") + "time.sleep(600)"
    await hearing.until(
        lambda: len(hearing.life.notified) == 4,
        hearing.rank(0, says("STATUS=rank")),
        hearing.rank(1, started(SAY + says("STATUS=child") + "time.sleep(600)")),
        hearing.rank(2, started(SAY + started(speaks, start_new_session=True) + "child.wait()")),
        hearing.rank(3, started(speaks, start_new_session=True)),
    )
    statuses = [hearing.status(rank) for rank in range(4)]
    assert statuses == ["rank", "child", "grandchild", "grandchild"]


async def test_what_a_rank_has_said_is_kept_with_its_time(hearing: Hearing):
    began = hearing.stage.clock.now()
    speaks = says("STATUS=loading") + says("READY=1") + says("WATCHDOG=1\nWATCHDOG_USEC=2000000")
    await hearing.until(
        lambda: 0 in hearing.life.notified and hearing.life.notified[0].watchdog_at,
        hearing.rank(0, speaks),
    )
    told = hearing.life.notified[0]
    assert (told.status, told.watchdog_seconds) == ("loading", 2.0)
    assert told.ready_at is not None
    assert told.watchdog_at is not None
    assert began < told.ready_at <= told.watchdog_at == told.heard_at <= hearing.stage.clock.now()


async def test_a_daemon_is_known_by_our_mark_and_its_rank(hearing: Hearing):
    """Its parents are gone, and its session is its own."""
    speaks = SAY + "wait_for('orphaned')\n" + says("STATUS=daemon") + "time.sleep(600)"
    forks = SAY + started(speaks, start_new_session=True)
    leaves = started(forks) + "child.wait(); open('orphaned', 'w').close()\n"
    environ = {"RANK": "5"}
    await hearing.until(
        lambda: hearing.status(5) == "daemon", hearing.rank(5, leaves, environ=environ)
    )


async def test_a_stranger_is_not_heard(hearing: Hearing):
    """Not even one that says whose it is, and is a child of ours, as an orphan may be."""

    def all_have_spoken() -> bool:
        if not strangers and hearing.status(0) == "up":
            send(hearing, "STATUS=the test itself")
            environ = {**os.environ, **hearing.variables, "RANK": "1", MARK.variable: "another's"}
            words = [sys.executable, "-c", stranger]
            strangers.append(subprocess.Popen(words, env=environ, stdout=subprocess.PIPE))
            assert strangers[0].stdout is not None
            assert strangers[0].stdout.readline() == b"\n"
            (hearing.stage.root / "device0" / "go").touch()
        return hearing.status(0) == "after them"

    stranger = SAY + says("STATUS=stranger") + "print(flush=True); time.sleep(600)"
    strangers: list[subprocess.Popen[bytes]] = []
    speaks = says("STATUS=up") + "wait_for('go')\n" + says("STATUS=after them")
    try:
        await hearing.until(all_have_spoken, hearing.rank(0, speaks), hearing.rank(1, ""))
    finally:
        for one in strangers:
            one.kill()
            one.communicate()
    assert list(hearing.life.notified) == [0]


async def test_a_sender_that_is_gone_is_not_heard(hearing: Hearing):
    """Nothing tells any more whose it was: this one has left its message before anybody reads."""
    send_and_go = SAY + says("STATUS=gone")
    environ = {**os.environ, **hearing.variables, "RANK": "0"}

    def heard() -> bool:
        if hearing.status(0) == "up":
            subprocess.run([sys.executable, "-c", send_and_go], env=environ, check=False)
            (hearing.stage.root / "device0" / "go").touch()
        return hearing.status(0) == "after it"

    speaks = says("STATUS=up") + "wait_for('go')\n" + says("STATUS=after it")
    await hearing.until(heard, hearing.rank(0, speaks))


async def test_workers_of_a_launcher_are_heard_as_their_ranks(
    hearing: Hearing,
):
    begins = "os.environ['RANK'] = {rank!r}\n"
    worker = SAY + says("STATUS=worker") + "time.sleep(600)"
    launches = "".join(
        begins.format(rank=rank) + started(worker, start_new_session=True) for rank in "67"
    )
    await hearing.until(
        lambda: len(hearing.life.notified) == 2, hearing.launcher(launches, workers=2)
    )
    assert sorted(hearing.life.notified) == [6, 7]


async def test_what_serves_the_ranks_is_none(hearing: Hearing):
    """A scheduler may have inherited the rank of the whole pod."""
    serves = says("STATUS=scheduler") + "open('../said', 'w').close()\n"
    speaks = "wait_for('../said')\n" + says("STATUS=rank")
    server = hearing.launcher(serves, significant=False, environ={"RANK": "0"})
    server = replace(
        server, cwd=hearing.stage.root / "server", log=hearing.stage.root / "server.txt"
    )
    await hearing.until(lambda: hearing.status(1) == "rank", server, hearing.rank(1, speaks))
    assert list(hearing.life.notified) == [1]


@pytest.mark.parametrize(("devices", "heard"), [(1, "the command"), (2, "rank 0")])
async def test_a_command_is_the_rank_if_there_is_only_one(stage, devices, heard):
    speaks = says("STATUS=the command") + "os.environ['RANK'] = '0'\n"
    speaks += started(SAY + "wait_for('go')\n" + says("STATUS=rank 0") + "time.sleep(600)")
    async with Hearing(stage, devices).listening() as hearing:
        environ = {"RANK": None, "RANK_ID": None}

        def enough() -> bool:
            if devices == 2 or hearing.status(0) == "the command":
                (stage.root / "device0" / "go").touch()
            seen.add(hearing.status(0))
            return hearing.status(0) == "rank 0"

        seen: set[str | None] = set()
        await hearing.until(enough, hearing.launcher(speaks, leads_ranks=True, environ=environ))
    assert (heard in seen, "the command" in seen) == (True, devices == 1)


FLOOD = """\
import threading
def flood():
    end = time.monotonic() + 60
    while time.monotonic() < end:
        say("STATUS=flood")
for _ in range(3): threading.Thread(target=flood, daemon=True).start()
"""


async def test_a_flood_keeps_nobody_from_being_heard(hearing: Hearing):
    """And the generation ends, with its pumps and its signals."""
    speaks = "wait_for('go')\n" + says("STATUS=quiet") + "print('up', flush=True)\n"

    def heard() -> bool:
        if hearing.status(0) == "flood":
            (hearing.stage.root / "device1" / "go").touch()
        log = hearing.stage.root / "rank1.txt"
        return hearing.status(1) == "quiet" and b"\nup\n" in log.read_bytes()

    await hearing.until(heard, hearing.rank(0, FLOOD), hearing.rank(1, speaks))


@contextmanager
def every_descriptor_taken() -> Iterator[None]:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 16, usual[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        for descriptor in taken:
            os.close(descriptor)


async def test_at_emfile_ranks_are_heard_all_the_same(hearing: Hearing):
    speaks = says("STATUS=up") + "wait_for('go')\n"
    speaks += started(SAY + says("STATUS=child") + "time.sleep(600)", start_new_session=True)

    def heard() -> bool:
        if hearing.status(0) == "up" and not emfile:
            (hearing.stage.root / "device0" / "go").touch()
            stack.enter_context(every_descriptor_taken())
            emfile.append(True)
        if hearing.status(0) != "child":
            return False
        if emfile == [True]:  # asked again while the generation is ended
            with pytest.raises(OSError, match="Too many open files"):
                os.open(os.devnull, os.O_RDONLY)
            stack.close()
            emfile.append(False)
        return True

    emfile: list[bool] = []
    with ExitStack() as stack:
        await hearing.until(heard, hearing.rank(0, speaks))


@pytest.fixture
def systemd_notify() -> str:
    found = shutil.which("systemd-notify")
    if found is None:
        pytest.skip("systemd-notify is missing (Debian's package systemd)")
    return found


async def test_systemd_notify_is_heard_and_need_not_wait(hearing: Hearing, systemd_notify):
    """It ends at once; its BARRIER=1 keeps it until its message was read."""
    script = f"{systemd_notify} --ready --status=up && echo told; sleep 600"
    spec = replace(hearing.rank(2, ""), argv=("sh", "-c", script))
    log = hearing.stage.root / "rank2.txt"
    await hearing.until(lambda: log.exists() and b"\ntold\n" in log.read_bytes(), spec)
    told = hearing.life.notified[2]
    assert told.status == "up"
    assert told.ready_at is not None


async def test_systemd_notify_of_another_user_is_heard_by_name(stage, systemd_notify):
    """Without privileges it cannot speak in the name of its parent."""
    if os.geteuid():
        pytest.skip("to become another user needs root")
    (stage.root / "state.json.notify").touch()
    async with Hearing(stage).listening() as hearing:
        other = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        script = f"{other} {systemd_notify} --status=up && echo told; sleep 600"
        spec = replace(hearing.rank(2, ""), argv=("sh", "-c", script))
        log = stage.root / "rank2.txt"
        await hearing.until(lambda: log.exists() and b"\ntold\n" in log.read_bytes(), spec)
        assert hearing.status(2) == "up"


async def test_between_generations_messages_are_read(hearing: Hearing):
    """Nobody waits because of us; after the end of a generation nothing is added to it."""
    await hearing.until(lambda: hearing.status(0), hearing.rank(0, says("STATUS=up")))
    for _ in range(1000):  # more than the queue holds
        await anyio.to_thread.run_sync(send, hearing, "READY=1")
    assert hearing.life.notified[0].ready_at is None


def at(listener: Listener) -> str:
    assert listener.address is not None
    return listener.address


async def test_it_is_beside_the_state_file_and_is_removed(stage):
    async with Hearing(stage).listening() as hearing:
        assert at(hearing.listener) == str(stage.root / "state.json.notify")
        assert Path(at(hearing.listener)).is_socket()
    assert list(stage.root.iterdir()) == []


def too_long(root: Path) -> Path:
    return root / ("x" * 100) / "state.json"


def taken(root: Path) -> Path:
    (root / "state.json.notify").write_text("precious")
    return root / "state.json"


def below_a_file(root: Path) -> Path:
    (root / "file").touch()
    return root / "file" / "state.json"


def read_only(root: Path) -> Path:
    if os.geteuid():
        pytest.skip("mounting a file system needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", str(root)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    return root / "state.json"


@pytest.mark.parametrize("obstacle", [too_long, taken, below_a_file, read_only])
async def test_where_no_file_will_do_it_has_an_abstract_name(stage, obstacle, tmp_path_factory):
    root = tmp_path_factory.mktemp("place")
    hearing = Hearing(stage)
    try:
        async with hearing.listening(obstacle(root)):
            assert at(hearing.listener).startswith("@ascend_supervisor.")
            assert len(at(hearing.listener)) == len("@ascend_supervisor.") + 32
            await hearing.until(lambda: hearing.status(0), hearing.rank(0, says("STATUS=up")))
    finally:
        if obstacle is read_only:
            subprocess.run(["umount", str(root)], check=True)
    if obstacle is taken:
        assert (root / "state.json.notify").read_text() == "precious"
    assert not stage.events or all(event.name != "diagnostic" for event in stage.events)


CONNECTED = """
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.connect(os.environ["NOTIFY_SOCKET"])
"""


@asynccontextmanager
async def looking(hearing: Hearing) -> AsyncIterator[None]:
    """Removals are looked for very often."""

    async def look() -> None:
        while True:
            hearing.removals.look()
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        yield
        tasks.cancel_scope.cancel()


async def test_a_socket_that_is_removed_is_made_again(stage: Stage, short: Path):
    hearing = Hearing(stage)
    async with hearing.listening(short / "state.json"), looking(hearing):
        place = Path(hearing.variables["NOTIFY_SOCKET"])
        connected, again = str(short / "connected"), str(short / "again")
        removes = f"os.unlink({str(place)!r})\nwait_for({str(place)!r})\n"
        await hearing.until(
            lambda: hearing.status(0) == "again" and hearing.status(1) == "connected before",
            hearing.rank(
                0,
                f"wait_for({connected!r})\n"
                + (removes + says("STATUS=again")) * 3
                + f"open({again!r}, 'w').close()\n",
            ),
            hearing.rank(
                1,
                CONNECTED
                + f"open({connected!r}, 'w').close()\nwait_for({again!r})\n"
                + "sender.send(b'STATUS=connected before')\n",
            ),
        )
        assert [event for event in stage.events if isinstance(event, Diagnostic)] == []
    assert not place.exists()


async def test_however_often_it_is_removed_few_descriptors_are_open(stage: Stage, short: Path):
    hearing = Hearing(stage)
    async with hearing.listening(short / "state.json"), looking(hearing):
        place = Path(hearing.variables["NOTIFY_SOCKET"])
        for _ in range(40):
            place.unlink()
            while not place.exists():
                await anyio.sleep(0.001)
        await anyio.sleep(0.05)
        links = tuple(Path("/proc/self/fd").iterdir())
        sockets = {str(link.readlink()) for link in links if link.is_socket()}
        table = Path("/proc/net/unix").read_text().splitlines()
        named = {line.split()[6] for line in table if str(short) in line}
        assert len(sockets & {f"socket:[{inode}]" for inode in named}) <= MOST_SOCKETS
    assert not place.exists()
