"""The control socket with real clients: what each request does, and who is put up with."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import select
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace

from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.operations import Operations, Running
from ascend_supervisor.control.server import PATIENCE_SECONDS, ControlSocket
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import GenerationStarted, ProcessStarted
from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.events.supervisor import (
    ControlRequested,
    Defect,
    Diagnostic,
    SupervisorExited,
)
from ascend_supervisor.files.clients import MOST_AT_ONCE
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.life import Life, NothingSeen
from ascend_supervisor.outcome import Requester, StopSignal
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.control.asking import Answered, ask, connected, read_line, told
from tests.control.lives import life, living
from tests.faults.facilities import hanging
from tests.running import DEADLINE_SECONDS

T = TypeVar("T")

TAKEN = StacksTaken(0, "/log/dump", ("rank-0.txt",), "who waits where", 0.1)
STATUS = Status("job-7", "pod-0", 4711, 123456, "0.1.0")
US = Requester(os.getpid(), os.geteuid(), pwd.getpwuid(os.geteuid()).pw_name)


class Stage:
    """A supervisor that only answers; ``ended`` lets its generation end."""

    def __init__(self, path: Path, patience: float = PATIENCE_SECONDS) -> None:
        self.path = path
        self.events: list[Event] = []
        clock = MonotonicClock()
        self._chronicle = Chronicle(STATUS, TrainingRecord(60.0, clock.elapsed()), clock)
        self.interrupts = Interrupts(self.report, lambda: None, clock)
        self.operations = Operations(
            self._chronicle, self.interrupts, clock, self.report, must_notify=False
        )
        self.removals = Removals()
        self.control = ControlSocket(path, self.operations, self.report, self.removals, patience)
        self.ended = anyio.Event()
        self.taken: StacksTaken | NothingSeen = TAKEN

    async def look(self, seconds: float) -> None:
        while True:
            await anyio.sleep(seconds)
            self.removals.look()

    def report(self, event: Event) -> None:
        self.events.append(event)
        self._chronicle.report(event)

    async def ask(self, request: str, **members: Any) -> Answered:
        return await aside(partial(ask, self.path, request, **members))

    async def live(self, of: Life, *, joins_others: bool = False) -> None:
        """A generation that lasts until ``ended``."""
        self.report(GenerationStarted(of.generation, 1))
        for one in of.processes:
            self.report(ProcessStarted(one.spec.rank, 0, of.generation, one.pid, "/log"))
        with self.operations.current.watching(Running(of, self._dump, not joins_others)):
            await self.ended.wait()
            of.is_ending = True
            await anyio.sleep_forever()

    async def _dump(self, of: Life) -> StacksTaken | NothingSeen:
        return self.taken


async def aside(call: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(call)


@asynccontextmanager
async def serving(
    path: Path, look_seconds: float = 10.0, patience: float = PATIENCE_SECONDS
) -> AsyncIterator[Stage]:
    """A stage whose socket is there; no exception reaches the event loop's handler."""
    strays: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))
    stage = Stage(path, patience)
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.control.serve)
            stage.control.begin()
            tasks.start_soon(stage.look, look_seconds)
            while not path.exists():
                await anyio.sleep(0.005)
            yield stage
            tasks.cancel_scope.cancel()
    assert strays == []
    assert not [event for event in stage.events if isinstance(event, Defect)]
    assert not path.exists()


@asynccontextmanager
async def living_in(stage: Stage, of: Life, *, joins_others: bool = False) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(stage.live, of, joins_others=joins_others))
        await anyio.lowlevel.checkpoint()
        yield
        tasks.cancel_scope.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json.sock"


async def test_ping_says_which_supervisor_lives(path):
    async with serving(path) as stage:
        assert await stage.ask("ping") == {
            "version": 1,
            "ok": True,
            "pid": 4711,
            "start_time": 123456,
        }
        assert stage.events == []


async def test_status_has_what_the_state_file_has_and_the_ranks(path):
    async with serving(path) as stage:
        before = await stage.ask("status")
        assert (before["status"]["phase"], before["ranks"]) == ("starting", [])
        async with living_in(stage, life(living(0), living(1, tail=b"loss 1.9\n"))):
            now = await stage.ask("status")
            assert now["status"]["phase"] == "running"
            assert [row["pid"] for row in now["ranks"]] == [100, 101]
            assert now["ranks"][1]["last_line"] == "loss 1.9"
        after = await stage.ask("status")
        assert [row["pid"] for row in after["ranks"]] == [100, 101]


async def test_ready_follows_the_generation(path):
    async with serving(path) as stage:
        assert (await stage.ask("ready"))["ready"] is False
        async with living_in(stage, life(living(0))):
            assert (await stage.ask("ready"))["ready"] is True
            stage.ended.set()
            await anyio.lowlevel.checkpoint()
            ending = await stage.ask("ready")
            assert (ending["ready"], ending["reason"]) == (False, "generation 0 is being ended")


async def test_stop_is_a_sigterm_by_somebody(path):
    async with serving(path) as stage:
        answer = await stage.ask("stop", grace=2.5)
        assert answer["effect"] == "stopping; no rank runs"
        stop = await stage.interrupts.stop()
        assert stop == StopSignal(signal.SIGTERM, stop.at, US)
        assert stage.interrupts.grace == 2.5
        assert stage.events == [ControlRequested("stop", US.uid, US.pid, answer["effect"], US.user)]
        assert (await stage.ask("ready"))["reason"].startswith("the job is stopping: process ")


async def test_after_the_last_event_nothing_is_left_to_stop(path):
    async with serving(path) as stage:
        stage.report(SupervisorExited(0, "every rank ended with 0", 1, None))
        answer = await stage.ask("stop")
        assert answer["ok"] is False
        assert answer["error"].startswith("nothing is left to stop: ending with exit code 0")


async def test_restart_ends_the_generation_that_runs_once(path):
    async with serving(path) as stage, living_in(stage, life(living(0))):
        answer = await stage.ask("restart")
        assert answer["effect"] == "generation 0 is ended, and the next one starts"
        fault = await stage.operations.requests.must_end(life())
        assert fault.reason == f"restart asked for by process {US.pid} of user {US.user}"
        again = await stage.ask("restart")
        assert again["error"] == "generation 0 is being ended already"
        effects = [event.effect for event in stage.events if isinstance(event, ControlRequested)]
        assert effects == [answer["effect"], f"declined: {again['error']}"]


async def test_whoever_means_an_earlier_generation_does_not_end_the_one_that_runs(path):
    async with serving(path) as stage, living_in(stage, life(living(0), generation=1)):
        told = (await stage.ask("restart", generation=0))["error"]
        assert told.startswith("generation 0 was ended meanwhile, and generation 1 runs; ask again")
        answer = await stage.ask("restart", generation=1)
        assert answer["effect"] == "generation 1 is ended, and the next one starts"


async def test_a_generation_that_ends_is_not_restarted(path):
    async with serving(path) as stage, living_in(stage, life(living(0))):
        stage.ended.set()
        await anyio.lowlevel.checkpoint()
        assert (await stage.ask("restart"))["error"] == "generation 0 is being ended already"


async def test_a_job_that_is_stopping_is_not_restarted(path):
    async with serving(path) as stage, living_in(stage, life(living(0))):
        await stage.ask("stop")
        assert (await stage.ask("restart"))["error"] == "generation 0 is being ended already"


async def test_ranks_that_join_others_are_not_restarted_from_here(path):
    async with serving(path) as stage, living_in(stage, life(living(0)), joins_others=True):
        assert "let the cluster restart the job" in (await stage.ask("restart"))["error"]


@pytest.mark.parametrize("request_", ["restart", "dump"])
async def test_without_a_generation_there_is_nothing_to_restart_or_to_look_at(path, request_):
    async with serving(path) as stage:
        answer = await stage.ask(request_)
        assert answer["error"] == "no generation runs, the job is starting; ask when one runs"
        assert [event.request for event in stage.events if isinstance(event, ControlRequested)] == [
            request_
        ]


async def test_dump_says_who_waits_where(path):
    async with serving(path) as stage, living_in(stage, life(living(0))):
        assert await stage.ask("dump") == {
            "version": 1,
            "ok": True,
            "summary": "who waits where",
            "directory": "/log/dump",
            "files": ["rank-0.txt"],
        }
        stage.taken = replace(TAKEN, files=())
        assert (await stage.ask("dump"))["directory"] is None
        stage.taken = NothingSeen("why")
        assert (await stage.ask("dump"))["error"] == "nothing was looked at: why"


async def test_a_look_that_fails_is_a_defect_and_its_client_is_told(path):
    async def broken(of: Life) -> StacksTaken:
        raise LookupError("nobody expected this")

    async with serving(path) as stage, living_in(stage, life(living(0))):
        assert stage.operations.current.running is not None
        stage.operations.current.running.dump = broken
        assert "nobody expected this" in (await stage.ask("dump"))["error"]
        defects = [event for event in stage.events if isinstance(event, Defect)]
        assert len(defects) == 1
        stage.events.remove(defects[0])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"\n", "expected one line with a JSON object"),
        (b"GET / HTTP/1.1\r\n\r\n", "expected one line with a JSON object"),
        (b'{"version":1,"request":"pong"}\n', "expected as"),
        (b"x" * 4096, "expected a line of at most 4096 bytes"),
        (b"x" * 100_000, "expected a line of at most 4096 bytes"),
    ],
)
async def test_what_is_not_understood_is_answered_with_a_sentence(path, line, sentence):
    async with serving(path):
        answer = await aside(partial(told, path, line))
        assert answer["ok"] is False
        assert answer["error"].startswith(sentence)


def asked_in_pieces(path: Path, *pieces: bytes) -> Answered:
    with connected(path) as client:
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        answer: Answered = json.loads(read_line(client))
    return answer


async def test_a_request_may_come_in_pieces_and_end_without_a_newline(path):
    async with serving(path):
        pieces = [b'{"version":1', b',"request":', b'"ping"}']
        assert (await aside(partial(asked_in_pieces, path, *pieces)))["pid"] == 4711


async def test_a_request_of_4096_bytes_is_read(path):
    line = b'{"version":1,"request":"ping"}'
    async with serving(path):
        assert (await aside(partial(told, path, line.rjust(4095) + b"\n")))["pid"] == 4711


async def test_a_client_that_asks_nothing_gets_nothing(path):
    async with serving(path):
        with connected(path) as client:
            client.shutdown(socket.SHUT_WR)
            assert await aside(partial(read_line, client)) == b""


async def test_a_client_that_keeps_us_waiting_is_told_and_closed(path):
    async with serving(path, patience=0.2):
        with connected(path) as client:
            client.sendall(b'{"version":1,')
            assert b"expected a line" in await aside(partial(read_line, client))


async def test_a_client_that_does_not_read_is_closed(path):
    async with serving(path, patience=0.2) as stage:
        many = [living(rank, tail=b"\xf0\x9f\x92\xa9" * 2000) for rank in range(400)]
        async with living_in(stage, life(*many)):
            with connected(path) as client:
                client.sendall(b'{"version":1,"request":"status"}\n')
                await until(lambda: is_closed(client), stage)
                cut = await aside(partial(read_line, client))
            assert 0 < len(cut) < 1 << 20
            assert not cut.endswith(b"\n")


async def until(holds: Callable[[], bool], stage: Stage) -> None:
    """After everything that was begun before."""
    await stage.ask("ping")
    while not holds():
        await anyio.sleep(0.005)


async def test_whoever_asks_at_once_is_answered_however_many_do_nothing(path):
    async with serving(path) as stage:
        idle = [connected(path) for _ in range(3 * MOST_AT_ONCE)]
        for _ in range(20):
            assert (await stage.ask("ping"))["ok"]
        await until(lambda: sum(map(is_closed, idle)) >= 2 * MOST_AT_ONCE, stage)
        closed = [is_closed(client) for client in idle]
        assert closed == sorted(closed, reverse=True)  # those that came first
        assert 2 * MOST_AT_ONCE <= sum(closed) < len(idle)
        for client in idle:
            client.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed it; what it wrote before may still be read."""
    end = select.poll()
    end.register(client, select.POLLHUP)
    return bool(end.poll(0))


async def test_who_waits_for_stacks_makes_room_for_others(path):
    looked = anyio.Event()

    async def slow(of: Life) -> StacksTaken:
        await looked.wait()
        return TAKEN

    async with serving(path) as stage, living_in(stage, life(living(0))):
        assert stage.operations.current.running is not None
        stage.operations.current.running.dump = slow
        waiting = [connected(path) for _ in range(MOST_AT_ONCE)]
        for client in waiting:
            client.sendall(b'{"version":1,"request":"dump"}\n')
        while len(stage.events) < 2 + MOST_AT_ONCE:
            await anyio.sleep(0.005)
        assert (await stage.ask("ping"))["ok"]
        looked.set()
        answers = [await aside(partial(read_line, client)) for client in waiting]
        assert (
            sum(b'"summary":"who waits where"' in answer for answer in answers) >= MOST_AT_ONCE - 1
        )
        for client in waiting:
            client.close()


async def test_where_no_socket_can_be_had_that_is_told_once(tmp_path):
    (tmp_path / "s").write_text("somebody's")
    stage = Stage(tmp_path / "s")
    stage.control.begin()
    with anyio.fail_after(DEADLINE_SECONDS):
        await stage.control.serve()
    (event,) = stage.events
    assert isinstance(event, Diagnostic)
    assert event.msg == (
        f"the control socket: {tmp_path / 's'}: it cannot be made: something that is not a socket "
        "is there; ascend-supervisorctl reads the state file"
    )
    assert (tmp_path / "s").read_text() == "somebody's"


async def test_a_file_system_that_does_not_answer_is_told_and_waited_for(tmp_path):
    with hanging(tmp_path, os.geteuid(), "d") as (disk,):
        path = disk.target / "s"
        stage = Stage(path, patience=0.1)
        disk.freeze()
        with anyio.fail_after(DEADLINE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.control.serve)
                stage.control.begin()
                while not stage.events:
                    await anyio.sleep(0.005)
                assert "the file system does not answer" in stage.events[0].msg
                disk.thaw()
                while not path.exists():
                    await anyio.sleep(0.005)
                assert (await stage.ask("ping"))["ok"]
                tasks.cancel_scope.cancel()
        assert len(stage.events) == 1


async def test_before_the_place_is_ours_there_is_no_socket(path):
    stage = Stage(path)
    with anyio.move_on_after(0.05):
        await stage.control.serve()
    assert not path.exists()


async def until_there(path: Path) -> None:
    while not path.exists():
        await anyio.sleep(0.005)


async def test_a_socket_that_is_removed_is_made_again(path):
    async with serving(path, look_seconds=0.01) as stage:
        for _ in range(20):
            with connected(path) as client:
                assert (await stage.ask("ping"))["ok"]  # so that one has been accepted before
                path.unlink()
                await until_there(path)
                assert (await stage.ask("ping"))["ok"]
                client.sendall(b'{"version": 1, "request": "ping"}\n')  # it is still served
                answer = await aside(partial(read_line, client))
                assert json.loads(answer)["ok"]
        assert stage.events == []


async def test_a_directory_that_is_removed_is_made_again_with_the_socket(tmp_path):
    path = tmp_path / "log" / "s"
    async with serving(path, look_seconds=0.01) as stage:
        shutil.rmtree(path.parent)
        path.parent.write_text("no directory")
        while not stage.events:
            await anyio.sleep(0.005)
        await anyio.sleep(0.1)
        path.parent.unlink()
        await until_there(path)
        assert (await stage.ask("ping"))["ok"]
        (told,) = stage.events
        assert isinstance(told, Diagnostic)
        assert "it was removed, and cannot be made again: " in told.msg


@pytest.mark.parametrize("turns", range(8))
async def test_the_end_is_prompt_while_the_socket_is_made_again(path, turns):
    """Whatever it is doing when it is cancelled, no socket is left."""
    for _ in range(20):
        async with serving(path, look_seconds=0.001):
            path.unlink()
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(turns * 0.0005)
        await anyio.sleep(0.001)
        assert not path.exists()


def open_sockets() -> int:
    links = tuple(Path("/proc/self/fd").iterdir())
    return sum(link.is_socket() for link in links)


async def test_no_descriptor_is_left_of_a_socket_that_was_removed(path):
    async with serving(path, look_seconds=0.001):
        before = open_sockets()
        for _ in range(30):
            path.unlink()
            await until_there(path)
        await anyio.sleep(0.01)
        assert open_sockets() == before
