"""Goes through everything that can happen, from one world, and looks for what must not."""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random

from msgspec import Struct

from tests.coordination.agreement.watch import Violation
from tests.coordination.agreement.world import Event, Model, World

LONGEST_END = 400
"""After so many events without a fault everybody has ended."""


class Found(Struct, frozen=True):
    """``worlds`` were seen; ``is_complete``: there are no others. ``violation`` is what broke.

    ``depth`` is how many events lead to the last one; all worlds with fewer were seen.
    """

    worlds: int
    is_complete: bool
    depth: int
    violation: Violation | None = None
    trace: tuple[Event, ...] = ()

    def __str__(self) -> str:
        told = "all" if self.is_complete else "the first"
        lines = [f"{told} {self.worlds} worlds, {self.depth} events deep"]
        if self.violation is not None:
            lines += [str(self.violation), *(" ".join(event) for event in self.trace)]
        return "\n".join(lines)


def explore(model: Model, start: World, most: int) -> Found:
    """At most so many worlds, those with the fewest events first."""
    numbers: dict[World, int] = {start: 0}
    origin: list[tuple[int, Event]] = [(-1, ("start",))]
    usual: list[int | None] = []
    todo = deque([start])
    while todo and len(numbers) < most:
        world = todo.popleft()
        number = numbers[world]
        events = list(model.events(world))
        following = None if model.is_over(world) else model.usual(events)
        successor = None
        for event in events:
            try:
                new = model.happened(world, event)
            except Violation as violation:
                trace = (*_trace(origin, number), event)
                return _broken(origin, violation, trace)
            if new not in numbers:
                numbers[new] = len(numbers)
                origin.append((number, event))
                todo.append(new)
            if event == following:
                successor = numbers[new]
        usual.append(successor)
    stuck = _stuck(usual)
    if stuck is not None:
        endless = Violation("ending", "without further faults this never ends")
        return _broken(origin, endless, _trace(origin, stuck))
    return Found(len(numbers), not todo, len(_trace(origin, len(origin) - 1)))


def _broken(
    origin: list[tuple[int, Event]], violation: Violation, trace: tuple[Event, ...]
) -> Found:
    return Found(len(origin), is_complete=False, depth=len(trace), violation=violation, trace=trace)


def walk(model: Model, start: World, chance: Random, steps: int) -> tuple[Event, ...]:
    """Random events, then the usual ones to the end; raises Violation, with the way to it."""
    world = start
    trace: list[Event] = []
    try:
        for number in count():
            if model.is_over(world):
                return tuple(trace)
            events = list(model.events(world))
            event = chance.choice(events) if number < steps else model.usual(events)
            trace.append(event)
            world = _next(model, world, event, number - steps)
    except Violation as violation:
        way = "\n".join(" ".join(one) for one in trace)
        raise Violation(violation.name, f"{violation}\n{way}") from violation
    raise AssertionError


def _next(model: Model, world: World, event: Event, usual: int) -> World:
    if usual > LONGEST_END:
        raise Violation("ending", "without further faults this never ends")
    return model.happened(world, event)


def _trace(origin: list[tuple[int, Event]], number: int) -> tuple[Event, ...]:
    events: list[Event] = []
    while number > 0:
        number, event = origin[number]
        events.append(event)
    return tuple(reversed(events))


def _stuck(usual: list[int | None]) -> int | None:
    """A world from which the usual events lead in a circle.

    ``usual`` says for each world that was looked at which one follows; None: all have ended.
    """
    good = bytearray(len(usual))
    for start in range(len(usual)):
        path = []
        number: int | None = start
        while number is not None and number < len(usual) and not good[number]:
            good[number] = 2
            path.append(number)
            number = usual[number]
        if number is not None and number < len(usual) and good[number] == 2:
            return start
        for one in path:
            good[one] = 1
    return None
