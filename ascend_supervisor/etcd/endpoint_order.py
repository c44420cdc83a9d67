"""Which endpoint is asked first: the last that answered; one that failed comes last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ascend_supervisor.etcd.access import Endpoint


class Turns:
    """The endpoints in the order in which they are tried."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        self._order = list(endpoints)
        self._leaving: list[Callable[[Endpoint], None]] = []

    @property
    def order(self) -> tuple[Endpoint, ...]:
        return tuple(self._order)

    def become(self, endpoints: tuple[Endpoint, ...]) -> None:
        """From now on these are asked; who depends on another one is called."""
        gone = [endpoint for endpoint in self._order if endpoint not in endpoints]
        self._order = list(endpoints)
        for endpoint in gone:
            for leave in self._leaving:
                leave(endpoint)

    def failed(self, endpoint: Endpoint) -> None:
        """It has not answered; whoever depends on it is called, if there is another to go to."""
        if len(self._order) > 1:
            self._order.remove(endpoint)
            self._order.append(endpoint)
            for leave in self._leaving:
                leave(endpoint)

    @contextmanager
    def told(self, leave: Callable[[Endpoint], None]) -> Iterator[None]:
        """Call ``leave`` for each endpoint that fails meanwhile."""
        self._leaving.append(leave)
        try:
            yield
        finally:
            self._leaving.remove(leave)
