"""What looks like a secret in a command line is masked; what does not stands as it is."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, strategies

from ascend_supervisor.processes.secrets import MASK, masked, masked_words

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("--token=abc", "--token=***"),
        ("--hf_token abc", "--hf_token ***"),
        ("--token", "--token"),
        ("-token abc --lr 1", "-token *** --lr 1"),
        ("--password --lr 1", "--password --lr 1"),
        ("--db.password=abc", "--db.password=***"),
        ("password=abc", "password=***"),
        ("MYSQL_PWD=abc", "MYSQL_PWD=***"),
        ("--obs-ak AB --obs-sk=CD", "--obs-ak *** --obs-sk=***"),
        ("--access_key_id=AB", "--access_key_id=***"),
        ("--secretAccessKey=AB", "--secretAccessKey=***"),
        ("--apiKey=AB", "--apiKey=***"),
        ("--private-key AB", "--private-key ***"),
        ("--credentials=AB", "--credentials=***"),
        ("--notify-url=https://h/x", "--notify-url=***"),
        ("--notify-url https://h/x --lr 1", "--notify-url *** --lr 1"),
        ("--notify-url-file /etc/urls", "--notify-url-file /etc/urls"),
        ("'--on-event=curl -u me:abc h' --lr 1", "'--on-event=***' --lr 1"),
        ("--on-event 'curl -u me:abc h' --lr 1", "--on-event *** --lr 1"),
        ("'--server-check=check --id abc'", "'--server-check=***'"),
        ("'--password=a b' --lr 1", "'--password=***' --lr 1"),
        ("https://me:abc@host/x", "https://***@host/x"),
        ("https://abc@github.com/x.git", "https://***@github.com/x.git"),
        ("https://h/x?key=abc&b=1", "https://h/x?key=***&b=1"),
        (
            "'s3://b/x?X-Amz-Signature=abc&X-Amz-Date=1'",
            "'s3://b/x?X-Amz-Signature=***&X-Amz-Date=1'",
        ),
        ("redis://:abc@h:6379/0", "redis://***@h:6379/0"),
        (f"x{JWT} {JWT}", f"x{JWT} ***"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "***"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
    ],
)
def test_words(words, shown):
    assert list(masked_words(shlex.split(words))) == shlex.split(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export TOKEN=abc; python x.py", "export TOKEN=***; python x.py"),
        ("PASSWORD='a b' run", "PASSWORD=*** run"),
        ('run --password "a b" -x', "run --password *** -x"),
        ("curl -H 'Authorization: Bearer abc.def' u", "curl -H 'Authorization: Bearer ***' u"),
        ("curl -H 'X-Auth-Token: abc' u", "curl -H 'X-Auth-Token: ***' u"),
        ('{"token": "abc", "lr": 1}', '{"token": ***, "lr": 1}'),
        (r"{\"token\": 1234, \"a\": 1}", r"{\"token\": ***, \"a\": 1}"),
        ("token=a token=b", "token=*** token=***"),
    ],
)
def test_in_the_middle_of_a_script(text, shown):
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr=1e-4 --seed 42",
        "--tokenizer=/data/tok --tokenizer-type Llama2",
        "--max_tokens=1024 --moe-token-dispatcher-type alltoall --eos-token-id 2",
        "--token-file=/run/secrets/t --password_file /x --key-value-heads 8",
        "--author=me --compass=north --bypass=1 --task=1 --mask=2 --disk=3",
        "tcp://10.0.0.1:29500 file:///tmp/x@y http://h:80/a@b",
        "--sort-key=name --keys a,b",
        "",
    ],
)
def test_what_is_no_secret_stands_as_it_is(text):
    assert masked(text) == text
    assert masked_words(text.split()) == tuple(text.split())


NAMES = strategies.sampled_from(["token", "password", "api_key", "SECRET", "hub-token", "sk"])
SECRETS = strategies.text("abcdefgABCDEFG0123456789_./+-", min_size=3).filter(
    lambda text: not text.startswith("-")
)


@given(NAMES, SECRETS, strategies.lists(strategies.sampled_from(["--lr", "1", "x.py"])))
def test_a_named_secret_never_comes_through(name, secret, others):
    for words in ([f"--{name}={secret}"], [f"--{name}", secret], [f"{name.upper()}={secret}"]):
        told = masked_words([*others, *words, *others])
        assert MASK in " ".join(told)
        assert told[: len(others)] == tuple(others) == told[len(told) - len(others) :]
        assert secret not in " ".join(told[len(others) : len(told) - len(others)]).replace(name, "")


@pytest.mark.parametrize(
    "piece", ["token", "-", "token=", "://", '"', "a", "eyJ.", "--a ", "bearer "]
)
def test_a_long_command_line_costs_no_more_than_its_length(piece):
    """A quarter of a megabyte each: what is quadratic in it runs into the test's deadline."""
    assert masked(piece * ((1 << 18) // len(piece)))
