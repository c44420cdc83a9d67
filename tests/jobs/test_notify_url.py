"""Messages of real jobs, as real endpoints get them."""

from __future__ import annotations

import http.server
import json

import pytest

from tests.alerts.endpoints import answering, closing, endpoint, hanging
from tests.etcd.servers import make_tls
from tests.running import Running, python, wait_until

FAILS_ONCE = """
import os, sys
sys.exit(3 if os.environ["LIFE"] == "0" else 0)
"""
AGAIN = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0.01", "--min-uptime", "0")
LIFE = ("--rank-env", "LIFE={generation}")
SECRETS = ("secret", "token=abc")


def complaints(job: Running) -> list[str]:
    return [event["message"] for event in job.all("diagnostic", source="--notify-url")]


def told_of(job: Running) -> str:
    """All that the supervisor has written about itself."""
    files = [path.read_text() for path in job.log_dir.iterdir() if "supervisor" in path.name]
    return "".join((*map(json.dumps, job.events), job.stderr, *files))


def test_each_incident_is_one_message_with_cause_log_and_host(supervised):
    with endpoint(answering(200)) as one, endpoint(answering(200)) as other:
        urls = ("--notify-url", one.url, "--notify-url", other.url)
        job = supervised(*AGAIN, *urls, *LIFE, *python(FAILS_ONCE))
        assert job.end() == 0
    restarted, ended = one.messages
    assert other.messages == one.messages
    assert (restarted["kind"], ended["kind"]) == ("restarted", "ended")
    assert restarted["log"] == str(job.log(0))
    assert restarted["text"].startswith(
        "ascend_supervisor: job modelarts-job-test: rank 0 failed first, in generation 0: it "
        "exited with status 3 after "
    )
    assert restarted["text"].endswith(f"; look at {job.log(0)} on job-test-0")
    assert restarted["root_cause"] == job.all("restart.scheduled")[0]["root_cause"] != ""
    assert [path for path, _ in one.requests] == ["/hook/secret?token=abc"] * 2
    assert complaints(job) == []
    for secret in SECRETS:
        assert secret not in told_of(job)


def test_urls_of_a_file_and_of_a_variable_are_told_nowhere_and_ranks_do_not_inherit_them(
    supervised, tmp_path
):
    with endpoint(answering(500)) as one, endpoint(answering(200)) as other:
        file = tmp_path / "urls"
        file.write_text(f"# ours\n\n{one.url}\n")
        job = supervised(
            *AGAIN,
            *("--notify-url-file", str(file)),
            *python("import os; print(sorted(os.environ))"),
            environ={"ASCEND_SUPERVISOR_NOTIFY_URL": other.url},
        )
        assert job.end() == 0
    assert len(one.requests) == 3
    assert len(other.requests) == 1
    (told,) = complaints(job)
    host = one.url.partition("/hook")[0]
    assert told == f"{host}/***: a message was not taken in 3 tries: HTTP status 500"
    assert "NOTIFY_URL" not in job.said(0)[0]
    for secret in SECRETS:
        assert secret not in told_of(job)


def test_dingtalk_that_refuses_with_status_200_is_asked_again_and_told(supervised):
    refusal = b'{"errcode":310000,"errmsg":"keywords not in content"}'
    with endpoint(answering(200, refusal)) as one:
        options = ("--notify-url", one.url, "--notify-format", "dingtalk")
        job = supervised(*AGAIN, *options, *python(""))
        assert job.end() == 0
    assert len(one.messages) == 3
    assert one.messages[0]["msgtype"] == "text"
    (told,) = complaints(job)
    assert told.endswith("it answers with code 310000: keywords not in content")


def test_a_message_is_sent_again_until_it_is_taken(supervised):
    answers = iter((closing, answering(503), answering(200)))

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        next(answers)(handler)

    with endpoint(answer) as one:
        job = supervised(*AGAIN, "--notify-url", one.url, *python(""))
        assert job.end() == 0
    assert len(one.messages) == 3
    assert complaints(job) == []


def test_the_end_is_told_though_an_older_message_has_no_answer(supervised):
    answers = iter((hanging, answering(200)))

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        next(answers)(handler)

    with endpoint(answer) as one:
        job = supervised(*AGAIN, "--notify-url", one.url, *python("raise SystemExit(3)"))
        assert job.end() == 3
    assert [message["kind"] for message in one.messages] == ["restarted", "failed"]
    (told,) = complaints(job)
    assert told.endswith(
        ": a message had no answer yet when the job ended, so it may not have come"
    )


def test_a_message_with_a_status_is_taken_though_the_rest_of_its_answer_does_not_come(supervised):
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        hanging(handler)

    with endpoint(answer) as one:
        job = supervised(*AGAIN, "--notify-url", one.url, *python(""))
        assert job.end() == 0
    assert len(one.messages) == 1
    assert complaints(job) == []


def test_a_certificate_that_nobody_signed_is_refused_unless_its_ca_is_given(supervised, tmp_path):
    tls = make_tls(tmp_path / "tls", "IP:127.0.0.1")
    with endpoint(answering(200), tls) as one:
        job = supervised(*AGAIN, "--notify-url", one.url, *python(""))
        assert job.end() == 0
        assert one.requests == []
        assert "its certificate is not accepted" in complaints(job)[0]
        ca = ("--notify-ca", str(tls.ca))
        job = supervised(*AGAIN, "--notify-url", one.url, *ca, *python(""))
        assert job.end() == 0
        assert len(one.requests) == 1


def test_messages_come_while_the_job_runs(supervised):
    with endpoint(answering(200)) as one:
        source = "import os, time; time.sleep(600 * int(os.environ['LIFE'])); raise SystemExit(3)"
        job = supervised(*AGAIN, "--notify-url", one.url, *LIFE, *python(source))
        wait_until(lambda: one.messages)
        job.process.terminate()
        assert job.end() == 143
    assert [message["kind"] for message in one.messages] == ["restarted", "failed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        ("http://a/b\nftp://user:secret@a/b\n", "line 2: expected a URL http://"),
    ],
)
def test_a_file_of_urls_that_cannot_be_used_is_refused(supervised, tmp_path, text, expected):
    file = tmp_path / "urls"
    if text is not None:
        file.write_text(text)
    job = supervised(*AGAIN, "--notify-url-file", str(file), *python(""))
    assert job.end() == 64
    reason = job.events[-1]["reason"]
    assert expected in reason
    assert "secret" not in reason


def test_a_file_without_a_url_is_told_at_the_start(supervised, tmp_path):
    file = tmp_path / "urls"
    file.write_text("# none yet\n")
    job = supervised(*AGAIN, "--notify-url-file", str(file), *python(""))
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="--notify-url-file")
    assert told["message"].startswith(f"{file} has no URL")
    assert told["seq"] < job.all("process.started")[0]["seq"]


def test_a_file_that_begins_with_a_bom_is_read(supervised, tmp_path):
    file = tmp_path / "urls"
    with endpoint(answering(200)) as one:
        file.write_bytes(b"\xef\xbb\xbf" + one.url.encode() + b"\r\n")
        job = supervised(*AGAIN, "--notify-url-file", str(file), *python(""))
        assert job.end() == 0
        assert len(one.messages) == 1
    assert job.all("diagnostic", source="--notify-url-file") == []
