"""``explain``: the causes of failures that logs show, in sentences or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ascend_supervisor.causes.diagnosis import Diagnosis, Language
from ascend_supervisor.causes.table import consequences
from ascend_supervisor.ctl.explained_log import ExplainedLog
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.phrases import run_text, runs
from ascend_supervisor.untrusted_text import clipped, harmless_text, plain

MOST_CHARACTERS = 300
"""Of a line that is shown."""
WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "more": "{file} and {more} more",
        "known": "{files}: {told}",
        "rank": "rank {rank}",
        "follows": "a consequence: the cause is rank {rank}, or the network between the two",
        "follows_any": "a consequence: the cause is another rank, or the network between the two",
        "ranks": "told by {count} ranks: {ranks}",
        "see": "see {see}",
        "comma": "; ",
        "said": "{file}: no known cause; it ended with: {line}",
        "unknown": "{file}: no known cause",
        "others": "{count} other logs: no known cause",
        "other": "1 other log: no known cause",
        "logs": "{count} logs: no known cause",
        "log": "1 log: no known cause",
        "stdin": "stdin",
        "source": "{file} ({source})",
    },
    "zh": {
        "more": "{file} 等 {count} 个文件",
        "known": "{files}：{told}",
        "rank": "rank {rank}",
        "follows": "连带后果：根因在 rank {rank}，或两者之间的网络",
        "follows_any": "连带后果：根因在其他 rank，或两者之间的网络",
        "ranks": "{count} 个 rank 有此报错：{ranks}",
        "see": "参见 {see}",
        "comma": "；",
        "said": "{file}：没有识别出已知原因；最后的报错是：{line}",
        "unknown": "{file}：没有识别出已知原因",
        "others": "另有 {count} 个日志没有识别出已知原因",
        "other": "另有 1 个日志没有识别出已知原因",
        "logs": "{count} 个日志没有识别出已知原因",
        "log": "1 个日志没有识别出已知原因",
        "stdin": "标准输入",
        "source": "{file}（{source}）",
    },
}


def sorted_causes(logs: Iterable[ExplainedLog]) -> list[ExplainedLog]:
    """What leads to others comes first, then what follows from it, then logs without a cause.

    Otherwise the order is kept.
    """
    logs = list(logs)
    ids = [log.diagnosis.id for log in logs if log.diagnosis is not None]
    later = consequences(ids)
    return sorted(logs, key=lambda log: _place(log.diagnosis, later))


def _place(diagnosis: Diagnosis | None, later: frozenset[str]) -> tuple[bool, bool, bool]:
    if diagnosis is None:
        return True, False, False
    return False, diagnosis.is_consequence, diagnosis.id in later


def as_text(logs: Sequence[ExplainedLog], language: Language) -> str:
    """A paragraph for each cause, in this order; a cause that several logs show is told once."""
    words = WORDS[language]
    groups: dict[tuple[str, str], list[ExplainedLog]] = {}
    for log in logs:
        if log.diagnosis is not None:
            key = log.diagnosis.id, log.diagnosis.remedy
            groups.setdefault(key, []).append(log)
    paragraphs = [
        "".join(f"{line}\n" for line in _paragraph(group[0].diagnosis, group, language))
        for group in groups.values()
        if group[0].diagnosis is not None
    ]
    unknown = "".join(f"{line}\n" for line in _unknown(logs, words))
    return "\n".join(filter(None, (*paragraphs, unknown)))


def _paragraph(
    diagnosis: Diagnosis, group: Sequence[ExplainedLog], language: Language
) -> Iterator[str]:
    words = WORDS[language]
    file = _file(group[0], words)
    if len(group) > 1:
        file = words["more"].format(file=file, more=len(group) - 1, count=len(group))
    yield words["known"].format(files=file, told=diagnosis.told(language))
    ranks = {log.rank for log in group if log.rank is not None}
    named = [words["see"].format(see=diagnosis.place(language))]
    if len(ranks) > 1:
        told = ", ".join(map(run_text, runs(ranks)))
        named.insert(0, words["ranks"].format(count=len(ranks), ranks=told))
    if diagnosis.is_consequence:
        key = "follows_any" if diagnosis.rank is None else "follows"
        named.insert(0, words[key].format(rank=diagnosis.rank))
    elif len(ranks) <= 1 and diagnosis.rank is not None:
        named.insert(0, words["rank"].format(rank=diagnosis.rank))
    yield f"  {words['comma'].join(named)}"
    if group[0].line:
        yield f"  {_shown(group[0].line)}"


def _unknown(logs: Sequence[ExplainedLog], words: Mapping[str, str]) -> Iterator[str]:
    """Logs that are named, or that say something; the others are only counted."""
    others = 0
    for log in logs:
        if log.diagnosis is None and (log.is_named or log.line):
            key = "said" if log.line else "unknown"
            yield words[key].format(file=_file(log, words), line=_shown(log.line or ""))
        elif log.diagnosis is None:
            others += 1
    if others:
        what = "log" if others == len(logs) else "other"
        yield words[what if others == 1 else f"{what}s"].format(count=others)


def _file(log: ExplainedLog, words: Mapping[str, str]) -> str:
    name = words["stdin"] if log.file == "-" else plain(log.file)
    if log.source is None:
        return name
    return words["source"].format(file=name, source=clipped(plain(log.source), MOST_CHARACTERS))


def _shown(line: str) -> str:
    return clipped(harmless_text(line[: 4 * MOST_CHARACTERS]).strip(), MOST_CHARACTERS)


def as_json(logs: Iterable[ExplainedLog]) -> bytes:
    """A list of objects, one for each log."""
    rows = [
        {
            "file": log.file,
            "source": log.source,
            "diagnosis": log.diagnosis,
            "line": log.line,
        }
        for log in logs
    ]
    return to_json(rows, indent=True) + b"\n"
