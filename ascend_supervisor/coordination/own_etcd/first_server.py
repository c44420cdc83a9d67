"""``--peers first``: the first server of the job starts an etcd, the others wait for it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.own_etcd.command import MISSING, PROGRAM
from ascend_supervisor.coordination.own_etcd.keeping import keep, start_first
from ascend_supervisor.coordination.own_etcd.listening import serves_at
from ascend_supervisor.coordination.own_etcd.machine import Machine
from ascend_supervisor.coordination.own_etcd.process import EtcdProcess
from ascend_supervisor.coordination.own_etcd.rules import Rules
from ascend_supervisor.coordination.own_etcd.staying import stay
from ascend_supervisor.coordination.own_etcd.telling import telling
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import EtcdError, MalformedAnswer, Refused
from ascend_supervisor.etcd.values import Get, Key

FIRST = 0
"""The node rank of the server that starts it."""
AGAIN_SECONDS = 0.5


class FirstServer:
    """``client`` makes a client that is told later where etcd is."""

    def __init__(
        self,
        client: Callable[[], AbstractAsyncContextManager[Etcd]],
        rules: Rules,
        machine: Machine,
    ) -> None:
        self._new_client = client
        self._rules = rules
        self._machine = machine
        self._process: EtcdProcess | None = None
        self._keeping = anyio.CancelScope()
        self._is_kept = False
        self._has_answered = False
        self._why = "it has not answered yet"

    @asynccontextmanager
    async def etcd(self) -> AsyncIterator[Etcd]:
        """A client. At the end, the etcd that runs here stays while other servers need it."""
        error = None
        async with self._new_client() as self._client, anyio.create_task_group() as self._tasks:
            try:
                yield self._client
            except Exception as raised:  # noqa: BLE001  (raised below, without a group around it)
                error = raised
            finally:
                with anyio.CancelScope(shield=True):
                    await self._leave()
                self._tasks.cancel_scope.cancel()
        if error is not None:
            raise error

    async def serve(self, endpoint: Endpoint, own_addresses: Sequence[str]) -> None:
        """Start it, to be found at ``endpoint``, unless it was started; ``etcd`` is entered.

        Returns when it answers; raises a Refusal. ``own_addresses`` are those of this machine, as
        far as they are known.
        """
        if self._process is not None:
            return
        machine = self._machine
        program = machine.find(PROGRAM)
        if program is None:
            raise SettingsRefused(MISSING)
        serves = await serves_at(endpoint, own_addresses)
        process = self._process = EtcdProcess(program, serves, machine, self._tasks)
        await process.prepare()
        self._client.move(serves)
        await start_first(process, self._client, machine)
        self._has_answered = self._is_kept = True
        self._tasks.start_soon(self._keep, process)

    def _lives(self) -> bool:
        """Whether it runs, or is started again."""
        return self._is_kept

    async def _keep(self, process: EtcdProcess) -> None:
        with self._keeping:
            await keep(process, self._machine)
            self._is_kept = False

    async def wait(self, endpoint: Endpoint) -> None:
        """Return when the etcd of the first server answers at ``endpoint``; ``etcd`` is entered.

        It is not waited for again if it is elsewhere later. Raises Unavailable. That it starts
        later than we is ordinary.
        """
        self._client.move(endpoint)
        if self._has_answered:
            return
        machine, seconds = self._machine, self._rules.timeout
        with anyio.move_on_after(seconds):
            async with telling(self._missing, seconds, machine.clock, machine.report):
                await self._look_until_it_answers()
                return
        raise Unavailable(
            f"--peers first: {endpoint.whose}, has not answered within {seconds:g} s: {self._why}; "
            f"see whether server {FIRST} runs, and whether its port {endpoint.port} can be reached"
        )

    def _missing(self) -> str:
        return f"waiting until the first server has started the job's etcd: {self._why}"

    async def _look_until_it_answers(self) -> None:
        while not self._has_answered:
            try:
                await self._client.read(Get(Key(keys.prefix(self._rules.job))))
            except (Refused, MalformedAnswer) as error:
                raise Unavailable(f"--peers first: {error}") from error
            except EtcdError as error:
                self._why = str(error)
                await anyio.sleep(AGAIN_SECONDS)
            else:
                self._has_answered = True

    async def _leave(self) -> None:
        process, machine, rules = self._process, self._machine, self._rules
        if process is None:
            return
        if self._has_answered:
            store = Store(self._client, rules.job, secrets.token_hex(8), rules.ttl)
            await stay(store, FIRST, rules.fence, self._lives, machine.clock, machine.report)
        self._keeping.cancel()
        await process.end()
