"""The bodies of requests, and the answers that mean success."""

from __future__ import annotations

import json

import pytest

from ascend_supervisor.alerts.formats import body_of, complaint_of, format_of
from ascend_supervisor.settings.alert_options import AlertFormat, read_webhooks
from tests.alerts.examples import ALERT, TEXT, TS

BODIES: dict[AlertFormat, object] = {
    "json": {
        "kind": "failed",
        "event": "supervisor.exited",
        "level": "error",
        "ts": TS,
        "job_id": "train-7",
        "host": "pod-1",
        "log": "/logs/1.txt",
        "text": TEXT,
        "root_cause": "",
    },
    "slack": {"text": TEXT.replace("<&>", "&lt;&amp;&gt;")},
    "feishu": {"msg_type": "text", "content": {"text": TEXT}},
    "dingtalk": {"msgtype": "text", "text": {"content": TEXT}},
    "wecom": {"msgtype": "text", "text": {"content": TEXT}},
    "alertmanager": [
        {
            "labels": {
                "alertname": "AscendJobFailed",
                "severity": "critical",
                "job_id": "train-7",
                "pod_name": "pod-1",
            },
            "annotations": {"summary": TEXT},
            "startsAt": TS,
        }
    ],
}


@pytest.mark.parametrize("form", BODIES)
def test_bodies(form):
    assert json.loads(body_of(ALERT, form)) == BODIES[form]


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", "slack"),
        ("https://open.feishu.cn/open-apis/bot/v2/hook/x", "feishu"),
        ("https://open.larksuite.com/open-apis/bot/v2/hook/x", "feishu"),
        ("https://OAPI.dingtalk.com/robot/send?access_token=x", "dingtalk"),
        ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x", "wecom"),
        ("http://alertmanager:9093/api/v2/alerts", "alertmanager"),
        ("https://example.com/hooks.slack.com", "json"),
    ],
)
def test_auto_goes_by_the_url(url, form):
    (webhook,) = read_webhooks(url)
    assert format_of(webhook, "auto") == form
    assert format_of(webhook, "wecom") == "wecom"


@pytest.mark.parametrize(
    ("form", "status", "body"),
    [
        ("json", 200, b""),
        ("json", 204, b""),
        ("json", 200, b'{"code": 1}'),
        ("slack", 200, b"ok"),
        ("alertmanager", 200, b""),
        ("feishu", 200, b'{"code":0,"msg":"success","data":{}}'),
        ("feishu", 200, b'{"StatusCode":0,"StatusMessage":"success"}'),
        ("dingtalk", 200, b'{"errcode":0,"errmsg":"ok"}'),
        ("wecom", 200, b'{"errcode":0,"errmsg":"ok"}'),
    ],
)
def test_success(form, status, body):
    assert complaint_of(form, status, body) is None


@pytest.mark.parametrize(
    ("form", "status", "body", "complaint"),
    [
        ("json", 301, b"", "it redirects (HTTP status 301), which is not followed"),
        ("json", 500, b"<html>secret", "HTTP status 500"),
        ("slack", 403, b"action_prohibited", "HTTP status 403 (action_prohibited)"),
        (
            "feishu",
            200,
            b'{"code":19024,"msg":"Key Words Not Found"}',
            "it answers with code 19024: Key Words Not Found",
        ),
        (
            "dingtalk",
            200,
            b'{"errcode":310000,"errmsg":"keywords not in content"}',
            "it answers with code 310000: keywords not in content",
        ),
        (
            "wecom",
            200,
            b'{"errcode":93000,"errmsg":"invalid\\nwebhook url"}',
            "it answers with code 93000: invalid\\nwebhook url",
        ),
        ("wecom", 200, b"ok", "its answer is none of its kind"),
        ("dingtalk", 200, b"[" * 5000, "its answer is none of its kind"),
        ("dingtalk", 200, b'{"errcode":"0"}', "its answer is none of its kind"),
        ("dingtalk", 200, b"{}", "it answers with code None"),
    ],
)
def test_complaints(form, status, body, complaint):
    assert complaint_of(form, status, body) == complaint
