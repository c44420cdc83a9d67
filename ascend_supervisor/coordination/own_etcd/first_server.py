"""``--peers first``: the first server of the rank table starts an etcd, the others wait for it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from ascend_supervisor.cluster.rank_table import FoundTable, RankTable
from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.own_etcd.address import own_addresses
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
    """``table`` waits for the rank table; ``client`` makes a client that is told later where."""

    def __init__(
        self,
        table: Callable[[], Awaitable[FoundTable]],
        client: Callable[[], AbstractAsyncContextManager[Etcd]],
        rules: Rules,
        machine: Machine,
    ) -> None:
        self._table = table
        self._new_client = client
        self._rules = rules
        self._machine = machine
        self._process: EtcdProcess | None = None
        self._keeping = anyio.CancelScope()
        self._is_kept = False
        self._has_answered = False

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

    async def table(self) -> FoundTable:
        """The rank table, when etcd answers where it says; ``etcd`` is entered.

        Raises a Refusal. A table that has changed may say that etcd is elsewhere.
        """
        found = await self._table()
        endpoint = self._rules.endpoint(found.table)
        if self._rules.node_rank(found.table) != FIRST:
            self._client.move(endpoint)
            await self._wait(endpoint)
        elif self._process is None:
            await self._serve(endpoint, found.table)
        return found

    async def _serve(self, endpoint: Endpoint, table: RankTable) -> None:
        machine = self._machine
        program = machine.find(PROGRAM)
        if program is None:
            raise SettingsRefused(MISSING)
        serves = await serves_at(endpoint, own_addresses(table))
        process = self._process = EtcdProcess(program, serves, machine, self._tasks)
        await process.prepare()
        self._client.move(serves)
        await start_first(process, self._client, machine)
        self._has_answered = self._is_kept = True
        self._tasks.start_soon(self._keep, process)

    async def _keep(self, process: EtcdProcess) -> None:
        with self._keeping:
            await keep(process, self._machine)
            self._is_kept = False

    async def _wait(self, endpoint: Endpoint) -> None:
        """Until the etcd of the first server answers; that it starts later than we is ordinary."""
        if self._has_answered:
            return
        machine, seconds = self._machine, self._rules.timeout
        why = "it has not answered yet"

        def what() -> str:
            return f"waiting for {endpoint.whose}: {why}"

        with anyio.move_on_after(seconds):
            async with telling(what, seconds, machine.clock, machine.report):
                while not self._has_answered:
                    try:
                        await self._client.read(Get(Key(keys.prefix(self._rules.job))))
                        self._has_answered = True
                    except (Refused, MalformedAnswer) as error:
                        raise Unavailable(f"--peers first: {error}") from error
                    except EtcdError as error:
                        why = str(error)
                        await anyio.sleep(AGAIN_SECONDS)
        if not self._has_answered:
            raise Unavailable(
                f"--peers first: {endpoint.whose}, has not answered within {seconds:g} s: {why}; "
                f"see whether server 0 runs, and whether its port {endpoint.port} can be reached"
            )

    async def _leave(self) -> None:
        process, machine, rules = self._process, self._machine, self._rules
        if process is None:
            return
        if self._has_answered:
            store = Store(self._client, rules.job, secrets.token_hex(8), rules.ttl)
            is_kept = lambda: self._is_kept  # noqa: E731
            await stay(store, FIRST, rules.fence, is_kept, machine.clock, machine.report)
        self._keeping.cancel()
        await process.end()
