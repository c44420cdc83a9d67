"""What the events of all servers mean, told to a newcomer: one line for what all of them do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

Event = Mapping[str, Any]
RESUMED = "successfully loaded checkpoint from checkpoint.json at iteration "
SAVED = "successfully saved checkpoint from iteration "
TRAINED = "trained "


class Story:
    """``lines`` gives what is to be told after an event; what was heard stays in the fields."""

    def __init__(self, servers: int, ranks: int) -> None:
        self._servers = servers
        self._ranks = ranks
        self._heard: dict[object, set[int]] = defaultdict(set)
        self.causes: set[str] = set()
        """Of the restarts, as the servers named them."""
        self.results: dict[int, str] = {}
        """The last line of each rank that has trained to the end."""

    def lines(self, server: int, event: Event) -> Iterator[str]:
        name, generation = event["event"], event.get("generation", -1)
        if name == "peers.joined":
            if self._completes(name, server, self._servers):
                yield "all supervisors have found the etcd, and look whether the job runs already"
        elif name == "generation.started":
            if self._completes((name, generation), server, self._servers):
                where = ", ".join(map(str, sorted(self._heard[name, generation])))
                yield f"generation {generation} has started on servers {where}: {self._ranks} ranks"
        elif name == "peers.waiting":
            if "spare" in event["reason"] and self._completes("spare", server, 1):
                yield f"server {server} waits as a spare"
        elif name == "output":
            yield from self._said(event["rank"], generation, event["msg"])
        elif name == "restart.scheduled":
            yield from self._restart(server, event)
        elif event["level"] in ("warning", "error"):
            yield f"server {server}: {event['msg']}"

    def _said(self, rank: int, generation: int, line: str) -> Iterator[str]:
        if line.startswith(RESUMED):
            step = line.removeprefix(RESUMED)
            if self._completes((RESUMED, generation), rank, self._ranks):
                yield f"every rank goes on from the checkpoint of step {step}"
        elif line.startswith(TRAINED):
            self.results[rank] = line
            if len(self.results) == self._ranks:
                yield f"every rank has {line}"
        elif line.startswith(SAVED):
            step = line.removeprefix(SAVED).split()[0]
            yield f"rank {rank} has saved the checkpoint of step {step}"
        elif "Error" in line:
            yield f"rank {rank}: {line}"

    def _restart(self, server: int, event: Event) -> Iterator[str]:
        """The first server that tells it speaks for all."""
        cause, left = event["cause"], event["restarts_left"]
        self.causes.add(cause)
        if self._completes(("restart", left), server, 1):
            yield "all servers end their ranks, and start the next generation together"
            yield f"  the cause that all of them name: {cause}"
            yield f"  restarts left for the whole job: {left}"

    def _completes(self, what: object, who: int, count: int) -> bool:
        """Whether ``who`` is the last of ``count`` to do it."""
        heard = self._heard[what]
        was = len(heard)
        heard.add(who)
        return was < len(heard) == count
