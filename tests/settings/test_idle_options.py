"""Options that do nothing without another one, and what is said of them."""

from __future__ import annotations

from itertools import chain

import pytest

from ascend_supervisor.settings.options import OPTIONS
from ascend_supervisor.settings.precedence import idle_options
from tests.job_settings import settings

RESET_FILE = {"ASCEND_SUPERVISOR_RESET_FILE": "/r/reset.json"}


def test_an_option_that_needs_another_one_names_it() -> None:
    needed = {option.name: option.needs for option in OPTIONS if option.needs}
    followed = ("cluster-verdict", "reset-file", "reset-grace")
    told = ("notify-url", "notify-url-file")
    others = {"json": ("check",), "warm-import": ("warm",), "notify-on": ("on-event", *told)}
    others |= {"bind-memory": ("bind-cpus",), "code-digest": ("peers",)}
    for_messages = dict.fromkeys(("notify-format", "notify-ca"), told)
    assert needed == {**dict.fromkeys(followed, ("follow-cluster",)), **others, **for_messages}
    assert {*chain(*needed.values())} <= {option.name for option in OPTIONS}


def test_an_option_that_does_nothing_is_named_with_what_makes_it_act() -> None:
    told = idle_options(settings("--reset-grace", "50")) or ""
    assert "--reset-grace does nothing without --follow-cluster: add that option" in told
    told = idle_options(settings("--cluster-verdict=60", env=RESET_FILE)) or ""
    assert "--cluster-verdict does nothing without --follow-cluster" in told
    assert "ASCEND_SUPERVISOR_RESET_FILE does nothing without --follow-cluster" in told
    told = idle_options(settings("--bind-cpus", "none", "--bind-memory")) or ""
    assert "--bind-memory does nothing without --bind-cpus: " in told
    assert idle_options(settings("--bind-cpus", "auto", "--bind-memory")) is None
    told = idle_options(settings("--notify-format", "slack")) or ""
    assert "--notify-format does nothing without --notify-url or --notify-url-file: " in told


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (("--follow-cluster", "--reset-grace", "50"), {}),
        (("--reset-grace", "50"), {"env": {"ASCEND_SUPERVISOR_FOLLOW_CLUSTER": "true"}}),
        (("--exit-linger", "60", "--retryable-exit-code", "137"), {}),
        (("--notify-on", "failed", "--on-event", "true"), {}),
        ((), {"toml": "reset_grace = 50"}),
        ((), {}),
    ],
)
def test_of_an_option_that_acts_or_stands_in_a_file_nothing_is_said(options, more) -> None:
    assert idle_options(settings(*options, **more)) is None
