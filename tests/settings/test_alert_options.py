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


URL = "https://hooks.example.com:8443/services/T0?key=abc"


def test_of_a_url_only_the_host_is_told():
    found = settings("--notify-url", URL, "--notify-url", "http://a")
    assert found.non_defaults == (
        "notify-url=https://hooks.example.com:8443/***,http://a/ (command line)",
    )
    (webhook, plain) = found.notify_url
    assert "abc" not in repr(webhook)
    assert (webhook.host, webhook.port, webhook.is_tls) == ("hooks.example.com", 8443, True)
    assert webhook.target == "/services/T0?key=abc"
    assert (plain.port, plain.target, plain.authority) == (80, "/", "a")


def test_an_address_of_ipv6_keeps_its_brackets():
    (webhook,) = settings("--notify-url", "http://[::1]:9093/api/v2/alerts").notify_url
    assert (webhook.host, webhook.authority) == ("::1", "[::1]:9093")


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "hooks.example.com/secret", "ftp://a/secret", "http://", "http:///secret"),
        *("http://a b/secret", "http://a:0/secret", "http://a:99999/secret", "http://a/secret#b"),
        *(
            "http://user:secret@a/b",
            "http://a/\r\nsecret: b",
            "http://ä/secret",
            "http://[::1/secret",
        ),
    ],
)
def test_what_is_no_url_is_refused_without_being_repeated(wrong):
    fault = only_fault(f"--notify-url={wrong}")
    assert fault.startswith("--notify-url: expected a URL http://... or https://...")
    assert "secret" not in fault
