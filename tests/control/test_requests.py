"""Restarts that are asked for: which generation ends, and at what cost."""

from __future__ import annotations

import anyio

from ascend_supervisor.control.operations import RestartRequests
from ascend_supervisor.events.generations import GenerationEnded, RestartScheduled
from ascend_supervisor.life import Life
from ascend_supervisor.outcome import Fault, Outcome, Remedy, Requester
from tests.control.lives import life
from tests.plays import Stage, alone, finish

BY = Requester(812, 0)
FAULT = Fault("restart asked for by process 812 of user 0", 69, Remedy.FREE)


async def test_it_answers_once_it_is_asked_and_from_then_on():
    requests = RestartRequests()
    with anyio.move_on_after(0.01) as scope:
        await requests.must_end(life())
    assert scope.cancelled_caught
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(requests.must_end, life())
        await anyio.lowlevel.checkpoint()
        assert requests.restart(0, BY)
    assert await requests.must_end(life()) == await requests.must_end(life()) == FAULT


async def test_the_same_generation_is_ended_once():
    requests = RestartRequests()
    assert requests.restart(0, BY)
    assert not requests.restart(0, Requester(813, 0))
    assert await requests.must_end(life()) == FAULT


async def test_the_next_generation_is_not_meant():
    requests = RestartRequests()
    requests.restart(0, BY)
    with anyio.move_on_after(0.01) as scope:
        await requests.must_end(life(generation=1))
    assert scope.cancelled_caught
    assert requests.restart(1, BY)
    assert await requests.must_end(life(generation=1)) == FAULT


async def test_a_restart_that_was_asked_for_is_free_and_says_who_asked():
    requests = RestartRequests()

    async def ask(life: Life) -> Outcome:
        requests.restart(life.generation, BY)
        await anyio.sleep_forever()
        raise AssertionError

    stage = Stage([ask, ask, finish], alone(0), [requests])
    exited = await stage.run()
    assert (exited.exit_code, exited.generations) == (0, 3)
    told = [event for event in stage.events if isinstance(event, RestartScheduled)]
    ended = [event for event in stage.events if isinstance(event, GenerationEnded)]
    assert [event.cause for event in ended] == [FAULT.reason, FAULT.reason, ""]
    assert f"s: {FAULT.reason}; next: restart" in ended[0].msg
    assert [(event.cause, event.free) for event in told] == [(FAULT.reason, True)] * 2
