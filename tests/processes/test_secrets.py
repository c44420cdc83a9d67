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
        ("export PASSWORD=a,b HF_TOKEN='a b'; run", "export PASSWORD=*** HF_TOKEN=***; run"),
        (r"export PASSWORD=a\ b; run", "export PASSWORD=***; run"),
        ('PASSWORD=a"b c"d run', "PASSWORD=*** run"),
        ("curl -d 'token=abc' -d 'x' u", "curl -d 'token=***' -d 'x' u"),
        ("'--password=a b' --lr 1", "'--password=***' --lr 1"),
        ('sh -c "--on-event=curl -u me:abc h" x', 'sh -c "--on-event=***" x'),
        ('["--token", "abc", "--lr", "1"]', '["--token", ***, "--lr", "1"]'),
    ],
)
def test_in_the_middle_of_a_script(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Password: a b c", "Password: ***"),
        ("password = a b\nlr = 1", "password = ***\nlr = 1"),
        ("user: me, password: a b, host: h", "user: me, password: ***, host: h"),
        ("Pwd=a;Database=x", "Pwd=***;Database=x"),
        ("用户 me，密码：a b", "用户 me，密码：***"),
        ("token := abc, step 3", "token := ***, step 3"),
        ("{'token': b'abc', 'lr': 1}", "{'token': ***, 'lr': 1}"),
        ('{"token":1234,"lr":1}', '{"token":***,"lr":1}'),
        ('{"a": {"token": "abc"}}', '{"a": {"token": ***}}'),
        ('{"passwords": ["a b", "c"], "lr": 1}', '{"passwords": ***, "lr": 1}'),
        ('{"credentials": {"user": "me", "x": "abc"}, "lr": 1}', '{"credentials": ***, "lr": 1}'),
        (r'"{\"password\": \"a b\", \"lr\": 1}"', r'"{\"password\": ***, \"lr\": 1}"'),
        ("<secretKey>abc</secretKey>", "<secretKey>***</secretKey>"),
        ("connect(token=SecretStr('a b'))", "connect(token=***"),
    ],
)
def test_in_what_a_program_says(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Token abc def", "Authorization: Token ***"),
        ('Authorization: Digest username="me", response="abc"', "Authorization: Digest ***"),
        (
            "x-sdk-date: 1\nAuthorization: SDK-HMAC-SHA256 Access=AB, Signature=cd\nHost: h",
            "x-sdk-date: 1\nAuthorization: SDK-HMAC-SHA256 ***\nHost: h",
        ),
        ("-H 'Proxy-Authorization: Basic abc' u", "-H 'Proxy-Authorization: Basic ***' u"),
        ('--header="Cookie: a=b; c=d" u', '--header="Cookie: ***" u'),
        ("Set-Cookie: session=abc; Path=/; Secure", "Set-Cookie: ***"),
        ('{"Authorization": "Bearer abc", "lr": 1}', '{"Authorization": ***, "lr": 1}'),
    ],
)
def test_in_headers_of_http(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "GET https://me:a@b@h/x?key=a&token=b&lr=1#access_token=c failed",
            "GET https://***@h/x?key=***&token=***&lr=1#access_token=*** failed",
        ),
        ("from http://a:b@h/ to http://c:d@i/", "from http://***@h/ to http://***@i/"),
        ("(22) https://hooks.slack.com/services/T0/B0/abc", "(22) https://hooks.slack.com/***"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/abc", "https://open.feishu.cn/***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nab\ncd\n-----END RSA PRIVATE KEY-----\nmore",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\nmore",
        ),
        ("xoxb-123456789012-abcdef", "***"),
    ],
)
def test_in_urls_and_by_their_form(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown


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
        "iteration 77/100, tokens: 4096, tokens per second: 12.5",
        "expected: a, found: b; see http://h/a:b@c?x=1",
        "bypass: yes, secretary: me, keyboard = us",
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    "piece",
    [
        *("token", "-", "token=", "://", '"', "a", "eyJ.", "--a ", "bearer ", "'", "\\", '\\"'),
        *("token=[", "password: ", "a://b@", "'token=", '\\"token\\":\\"', "token=a'b", ",", "a,"),
        *("-----BEGIN PRIVATE KEY-----", "<token>", "cookie:", "authorization: basic ", "&key="),
    ],
)
def test_a_long_command_line_costs_no_more_than_its_length(piece):
    """A quarter of a megabyte each: what is quadratic in it runs into the test's deadline."""
    assert masked(piece * ((1 << 18) // len(piece)))
