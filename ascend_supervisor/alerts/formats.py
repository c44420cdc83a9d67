"""What each kind of endpoint takes, and whether its answer means that it has taken it; pure.

* Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (``text``, with
  &, < and > escaped) and https://api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks
  (the HTTP status tells an error, the body names it in a word such as invalid_payload).
* Feishu and Lark: https://open.feishu.cn/document/ukTMukTMukTM/ucTM5YjL3ETO24yNxkjN (``msg_type``
  and ``content``; ``code`` is 0 if all is well, ``StatusCode`` in older answers).
* DingTalk: https://open.dingtalk.com/document/group/custom-robot-access (``msgtype`` and ``text``;
  errors have status 200, too, and an ``errcode`` other than 0; 20 messages a minute).
* WeCom: https://developer.work.weixin.qq.com/document/path/91770 (the same form; a text has at most
  2048 bytes; 20 messages a minute).
* Alertmanager: https://prometheus.io/docs/alerting/latest/alerts_api (a list of alerts with labels,
  annotations and ``startsAt``; without ``endsAt`` it is resolved after its resolve_timeout).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ascend_supervisor.alerts.messages import Alert
from ascend_supervisor.settings.alert_options import AlertFormat, AlertKind, Webhook
from ascend_supervisor.untrusted_text import clipped, printable

HOSTS: Mapping[str, AlertFormat] = {
    "hooks.slack.com": "slack",
    "hooks.slack-gov.com": "slack",
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "feishu",
    "oapi.dingtalk.com": "dingtalk",
    "qyapi.weixin.qq.com": "wecom",
}
ALERTS_PATH = "/api/v2/alerts"
SEVERITY: Mapping[AlertKind, str] = {
    "failed": "critical",
    "restarted": "warning",
    "hang": "warning",
    "ended": "info",
}
_WORD = re.compile(rb"[a-z_]{1,40}")
MESSAGE_CHARACTERS = 100


def format_of(webhook: Webhook, chosen: AlertFormat) -> AlertFormat:
    """``chosen``; ``auto`` is the one that the URL shows, or json."""
    if chosen != "auto":
        return chosen
    if webhook.path.endswith(ALERTS_PATH):
        return "alertmanager"
    return HOSTS.get(webhook.host, "json")


def body_of(alert: Alert, form: AlertFormat) -> bytes:
    """The body of the request, JSON in UTF-8."""
    return msgspec.json.encode(_BODIES[form](alert))


def _slack(alert: Alert) -> object:
    text = alert.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _feishu(alert: Alert) -> object:
    return {"msg_type": "text", "content": {"text": alert.text}}


def _robot(alert: Alert) -> object:
    return {"msgtype": "text", "text": {"content": alert.text}}


def _alertmanager(alert: Alert) -> object:
    labels = {
        "alertname": f"AscendJob{alert.kind.capitalize()}",
        "severity": SEVERITY[alert.kind],
        "job_id": alert.job_id,
        "pod_name": alert.host,
    }
    return [{"labels": labels, "annotations": {"summary": alert.text}, "startsAt": alert.ts}]


def _as_it_is(alert: Alert) -> object:
    return alert


_BODIES: Mapping[AlertFormat, Callable[[Alert], object]] = {
    "auto": _as_it_is,
    "json": _as_it_is,
    "slack": _slack,
    "feishu": _feishu,
    "dingtalk": _robot,
    "wecom": _robot,
    "alertmanager": _alertmanager,
}


class _Verdict(msgspec.Struct, rename={"status_code": "StatusCode"}):
    code: int | None = None
    status_code: int | None = None
    errcode: int | None = None
    msg: str = ""
    errmsg: str = ""


def complaint_of(form: AlertFormat, status: int, body: bytes) -> str | None:
    """Why the endpoint has not taken a message, as a clause; None if it has."""
    if 300 <= status < 400:  # noqa: PLR2004
        return f"it redirects (HTTP status {status}), which is not followed"
    if not 200 <= status < 300:  # noqa: PLR2004
        word = _WORD.fullmatch(body.strip())
        return f"HTTP status {status}" + (f" ({word[0].decode()})" if word else "")
    if form not in {"feishu", "dingtalk", "wecom"}:
        return None
    try:
        verdict = msgspec.json.decode(body, type=_Verdict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "its answer is none of its kind"
    codes = (verdict.code, verdict.errcode, verdict.status_code)
    code = next((one for one in codes if one is not None), None)
    if code == 0:
        return None
    said = clipped(printable(verdict.msg or verdict.errmsg), MESSAGE_CHARACTERS)
    return f"it answers with code {code}: {said}" if said else f"it answers with code {code}"
