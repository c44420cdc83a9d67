"""--retryable-exit-code: which ends get it, and that the failure's own code is told."""

from __future__ import annotations

import pytest

from ascend_supervisor.errors import (
    CannotExecute,
    CannotWrite,
    CommandNotFound,
    Refusal,
    SettingsRefused,
    TableRefused,
    TableTimeout,
    Unavailable,
)
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.supervisor import End, refused
from tests.plays import Stage, alone, crash, finish, train

CODE = 200


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (SettingsRefused("no such option"), 64),
        (TableRefused("no such entry"), 65),
        (Unavailable("the devices were not released"), CODE),
        (Refusal("for no reason"), 70),
        (CannotWrite("a full disk"), 73),
        (TableTimeout("initializing"), CODE),
        (CannotExecute("not executable"), 126),
        (CommandNotFound("not found"), 127),
    ],
    ids=lambda one: type(one).__name__,
)
def test_of_the_refusals_what_may_pass_gets_it(refusal, code):
    end = refused(refusal).with_retryable_code(CODE)
    assert end.event.exit_code == code
    assert end.event.own_exit_code == (refusal.exit_code if code == CODE else None)


@pytest.mark.parametrize("acts", [[crash], [train]], ids=["a failure", "a signal"])
async def test_of_the_jobs_a_failure_gets_it_and_a_signal_does_not(acts):
    stage = Stage(acts, alone())
    if acts == [train]:
        stage.stop()
    own = (await stage.run()).exit_code
    end = stage.exit.with_retryable_code(CODE)
    assert own == (143 if acts == [train] else 1)
    assert end.event.exit_code == (143 if acts == [train] else CODE)


async def test_success_is_success():
    stage = Stage([finish], alone())
    await stage.run()
    assert stage.exit.with_retryable_code(CODE) == stage.exit
    assert stage.exit.event.exit_code == 0


def test_both_codes_are_told():
    end = End(SupervisorExited(1, "no restarts were asked for", 1, "rank 3"), is_retryable=True)
    event = end.with_retryable_code(137).event
    assert (event.exit_code, event.own_exit_code) == (137, 1)
    assert event.msg == (
        "no restarts were asked for; "
        "ending with exit code 137 in place of 1 (--retryable-exit-code)"
    )


@pytest.mark.parametrize("code", [None, 1])
def test_without_another_code_nothing_is_said_of_it(code):
    end = End(SupervisorExited(1, "no restarts were asked for", 1, None), is_retryable=True)
    assert end.with_retryable_code(code) == end
