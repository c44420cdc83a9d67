"""What a support ticket may show of environments and plans."""

from __future__ import annotations

import pytest

from ascend_supervisor.processes.secrets import masked_document, masked_environment


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("HF_TOKEN", "a b;c", "***"),
        ("WANDB_API_KEY", "abc", "***"),
        ("SSH_KEY", "abc", "***"),
        ("TOKEN_OF_OBS", "abc", "***"),
        ("obs_sk", "abc", "***"),
        ("DB_PASSWORD", 'a"b', "***"),
        ("X", "-----BEGIN RSA PRIVATE KEY-----\nabc", "***"),
        ("http_proxy", "http://me:abc@proxy:80/", "http://***@proxy:80/"),
        ("ASCEND_SUPERVISOR_ON_EVENT", "curl -u me:abc h", "***"),
        ("ASCEND_SUPERVISOR_SERVER_CHECK", "check --id abc", "***"),
        ("ASCEND_SUPERVISOR_NOTIFY_URL", "https://h/abc", "***"),
        ("COMMAND", "run --password abc", "run --password ***"),
        ("URL", "https://h/x?key=abc&b=1", "https://h/x?key=***&b=1"),
        ("PWD", "/home/me", "/home/me"),
        ("TOKENIZERS_PARALLELISM", "false", "false"),
        ("RANK", "0", "0"),
        ("TWO", "a\nb", "a\\nb"),
    ],
)
def test_a_secret_is_masked_by_its_name_or_its_form(name, value, shown):
    found = masked_environment({name: value})
    assert found == f"{name}={shown}\n".encode()


def test_variables_are_in_order_and_bytes_that_are_no_text_are_kept():
    assert masked_environment({"B": "\udcff", "A": "1"}) == b"A=1\nB=\\udcff\n"


def test_a_plan_is_masked_by_its_keys_and_command_lines():
    plan = {
        "argv": ["run", "--token", "abc", "--lr", "1"],
        "environment": {"HF_TOKEN": "abc", "RANK": "0", "P": "http://me:abc@h/"},
        "more": [{"url": "https://h/?key=abc"}, 3, None, True],
        "credentials": {"user": "me", "passwords": ["a b", "c"]},
        "sections": [{"password": 1234, "on_event": None, "server_check": ["check", "abc"]}],
    }
    assert masked_document(plan) == {
        "argv": ["run", "--token", "***", "--lr", "1"],
        "environment": {"HF_TOKEN": "***", "RANK": "0", "P": "http://***@h/"},
        "more": [{"url": "https://h/?key=***"}, 3, None, True],
        "credentials": "***",
        "sections": [{"password": "***", "on_event": None, "server_check": "***"}],
    }
