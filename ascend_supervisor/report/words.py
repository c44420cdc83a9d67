"""The words of a report, in English and in Chinese; pure.

Sentences of supervisors and of ranks are quoted as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Words = Mapping[str, str]

_ENGLISH: Words = {
    "colon": ": ",
    "comma": ", ",
    "title": "Job {name}",
    "done": "The job ended well after {time}: every rank ended with 0",
    "failed": "The job failed with exit code {code} after {time}",
    "stopped": "The job was stopped after {time}, with exit code {code}",
    "open": "The job has run for {time}; these events do not tell its end",
    "rank_failed": "rank {rank} on {host} failed first, in generation {generation}",
    "rank_hung": "rank {rank} on {host} stopped first, in generation {generation}",
    "host_failed": "generation {generation} ended first on {host}",
    "why": "Why",
    "first": "Before that",
    "first_of": "The first of {count} causes",
    "to_do": "What to do",
    "advice.nothing": "Nothing.",
    "advice.look_open": "See whether it still runs: ascend-supervisorctl status. If its pod is "
    "gone, its supervisor was killed before it could say more; the pod's description says why.",
    "advice.who_stopped": "Look who sent the signal: the scheduler, the platform, an operator. "
    "Another start goes on from the last checkpoint.",
    "advice.correct": "Correct what the sentence names; another try without that fails the same "
    "way.",
    "advice.device": "Free the device or the resource that the sentence names, or let the "
    "scheduler take another host; then start again.",
    "advice.table": "See whether the cluster has placed all pods, and whether the rank table's "
    "volume is mounted.",
    "advice.defect": "Report the event supervisor.defect with its traceback, and start again.",
    "advice.elsewhere": "This is a consequence: look at the rank or server that it names.",
    "advice.memory": "Give the pod more memory, or let the ranks hold less: fewer data loader "
    "workers, smaller batches.",
    "advice.hang": "Look where the ranks wait, below; begin with the one that stopped first. If "
    "they were only slow, raise the limit.",
    "advice.read_lines": "Read the last lines of this rank below, then its log. What other ranks "
    "say later are consequences.",
    "advice.read_sentence": "Read the sentence, then the logs of the ranks.",
    "account": "What the time was spent on",
    "account.of": "({time})",
    "progress": "Progress",
    "progress.about": "Steps over time. A dot is a checkpoint, a dashed line the start of a "
    "generation.",
    "steps": "step {step}",
    "timeline": "Timeline",
    "timeline.about": "One row for each server; time goes from left to right, from {begin} UTC. A "
    "thin bar below is a rank that did not live as long as the others; red: it failed first. "
    "Numbers are those of the causes below.",
    "timeline.others": "{count} more servers",
    "flag": "{number}: rank {rank}",
    "failures": "Why generations ended",
    "failures.none": "None.",
    "failures.more": "{count} more are not shown.",
    "failure.after": "after {time}",
    "failure.where": "Where the ranks waited",
    "failure.files": "Files on {host}",
    "failure.lines": "Last lines",
    "failure.lost": "{steps} steps lost",
    "failure.then": "Other servers, later",
    "failure.log": "The last lines are in its log, which is named below.",
    "settings": "Settings",
    "settings.defaults": "All settings are defaults.",
    "settings.command": "Command",
    "settings.differ": "Settings of {host}",
    "versions": "Versions",
    "version": "ascend_supervisor {version}",
    "method": "launch method {method}, cluster from {cluster}",
    "size": "ranks: {ranks}; servers: {servers}; restarts: {restarts}",
    "category": "category",
    "time": "time",
    "share": "share",
    "kind.waiting": "waiting",
    "kind.start": "start",
    "kind.training": "training",
    "kind.trained_again": "trained again",
    "kind.stalled": "stalled",
    "kind.running": "ranks run",
    "kind.stopping": "stopping",
    "kind.drain": "drain",
    "kind.grace": "grace",
    "kind.restarting": "between generations",
    "kind.unknown": "without a step",
    "bar": "{kind}, {begin} to {end}",
    "generation": "generation {generation}",
    "ranks": "ranks {ranks}",
}
_CHINESE: Words = {
    "colon": "：",
    "comma": "，",
    "title": "作业 {name}",
    "done": "作业在 {time} 后正常结束：所有 rank 均以 0 退出",
    "failed": "作业在 {time} 后失败，退出码 {code}",
    "stopped": "作业在 {time} 后被停止，退出码 {code}",
    "open": "作业已运行 {time}；这些事件中没有它的结束",
    "rank_failed": "{host} 上的 rank {rank} 最先失败（第 {generation} 代）",
    "rank_hung": "{host} 上的 rank {rank} 最先停住（第 {generation} 代）",
    "host_failed": "第 {generation} 代在 {host} 上最先结束",
    "why": "原因",
    "first": "在此之前",
    "first_of": "{count} 个原因中的第一个",
    "to_do": "处理方法",
    "advice.nothing": "无需处理。",
    "advice.look_open": "用 ascend-supervisorctl status 查看它是否仍在运行。如果 Pod 已不在，说明 "
    "supervisor 在写完事件之前就被杀死，请查看 Pod 的描述。",
    "advice.who_stopped": "查看信号由谁发出：调度器、平台还是操作者。再次启动会从最近的 checkpoint "
    "继续。",
    "advice.correct": "请按这句话改正；不改正而重试，结果相同。",
    "advice.device": "释放这句话所指的设备或资源，或者让调度器换一台主机，然后重新启动。",
    "advice.table": "查看集群是否已放置所有 Pod，以及 rank table 的卷是否已挂载。",
    "advice.defect": "请附上 supervisor.defect 事件中的 traceback 报告问题，然后重新启动。",
    "advice.elsewhere": "这是后果：请查看这句话所指的 rank 或服务器。",
    "advice.memory": "给 Pod 更多内存，或者减少 rank 的占用：更少的 data loader 进程、更小的 batch"
    "。",
    "advice.hang": "查看下面各 rank 停在哪里，先看最先停住的 rank。如果只是慢，请调大时限。",
    "advice.read_lines": "先看下面这个 rank 的最后几行，再看它的日志。其他 rank 之后的报错都是后果"
    "。",
    "advice.read_sentence": "先看这句话，再看各 rank 的日志。",
    "account": "时间花在哪里",
    "account.of": "（{time}）",
    "progress": "训练进度",
    "progress.about": "step 随时间的变化。圆点是 checkpoint，虚线是一代的开始。",
    "steps": "step {step}",
    "timeline": "时间线",
    "timeline.about": "每台服务器一行；时间从左到右，从 {begin} UTC 开始。下方的细条是与其他 rank "
    "存活时间不同的 rank，红色为最先失败者。数字对应下面的原因。",
    "timeline.others": "另外 {count} 台服务器",
    "flag": "{number}：rank {rank}",
    "failures": "各代为何结束",
    "failures.none": "没有。",
    "failures.more": "还有 {count} 个未显示。",
    "failure.after": "{time} 之后",
    "failure.where": "各 rank 停在哪里",
    "failure.files": "{host} 上的文件",
    "failure.lines": "最后几行",
    "failure.lost": "丢失 {steps} 个 step",
    "failure.then": "其他服务器随后的情况",
    "failure.log": "最后几行在下面列出的日志中。",
    "settings": "设置",
    "settings.defaults": "所有设置均为默认值。",
    "settings.command": "命令",
    "settings.differ": "{host} 的设置",
    "versions": "版本",
    "version": "ascend_supervisor {version}",
    "method": "启动方式 {method}，集群信息来自 {cluster}",
    "size": "{servers} 台服务器，{ranks} 个 rank；重启 {restarts} 次",
    "category": "类别",
    "time": "时间",
    "share": "占比",
    "kind.waiting": "等待",
    "kind.start": "启动",
    "kind.training": "训练",
    "kind.trained_again": "重复训练",
    "kind.stalled": "停滞",
    "kind.running": "rank 运行中",
    "kind.stopping": "停止中",
    "kind.drain": "drain",
    "kind.grace": "优雅退出",
    "kind.restarting": "两代之间",
    "kind.unknown": "没有 step",
    "bar": "{kind}，{begin} 至 {end}",
    "generation": "第 {generation} 代",
    "ranks": "rank {ranks}",
}
WORDS: Mapping[Language, Words] = {"en": _ENGLISH, "zh": _CHINESE}
