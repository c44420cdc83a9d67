"""Who is told, and of what: values of the options, and what is shown of them."""

from __future__ import annotations

import pytest

from ascend_supervisor.settings.alert_options import ALERT_KINDS
from tests.job_settings import only_fault, settings


def test_a_command_is_split_into_words_as_a_shell_does():
    found = settings("--on-event", "sh -c 'cat >> \"a file\"' --token=x").on_event
    assert found is not None
    assert found.words == ("sh", "-c", 'cat >> "a file"', "--token=x")


def test_arguments_of_a_command_are_not_told():
    found = settings("--on-event", "curl -H 'X-Key: abc'")
    assert found.non_defaults == ("on-event=curl *** (command line)",)
    assert "abc" not in repr(found.on_event)


@pytest.mark.parametrize("wrong", ["", "  ", "sh -c 'secret", "''"])
def test_what_is_no_command_is_refused_without_being_repeated(wrong):
    fault = only_fault("--on-event", wrong)
    assert fault == "--on-event: expected a command, with quotes that end, found another value"


def test_all_kinds_are_told_unless_some_are_chosen():
    assert settings().notify_on == ALERT_KINDS
    assert settings("--notify-on", "hang, failed").notify_on == ("failed", "hang")
    assert settings(toml="notify_on = ['ended']").notify_on == ("ended",)


@pytest.mark.parametrize("wrong", ["", "all", "failed,hangs", "failed,"])
def test_other_kinds_are_refused(wrong):
    fault = only_fault("--notify-on", wrong)
    expected = "--notify-on: expected some of failed, restarted, hang, ended, with commas between"
    assert fault.startswith(expected)
