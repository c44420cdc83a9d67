"""The words of a report, in English and in Chinese; pure.

Sentences of supervisors and of ranks are quoted as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from ascend_supervisor.causes.diagnosis import Language

LANGUAGES: tuple[Language, ...] = get_args(Language)
Words = Mapping[str, str]

_ENGLISH: Words = {
    "colon": ": ",
    "comma": ", ",
    "gap": " ",
    "title": "Job {name}",
    "done": "The job ended well after {time}, with exit code 0",
    "done_again": "The job ended well after {time}; restarts: {restarts}",
    "done_doubtful": "The job ended with exit code 0 after {time}, but perhaps not well; restarts: "
    "{restarts}",
    "failed": "The job failed with exit code {code} after {time}",
    "stopped": "The job was stopped after {time}, with exit code {code}",
    "open": "The job has run for {time}; these events do not tell its end",
    "runs": "The job has run for {time}, and goes on",
    "ran": "The job has run for {time}; ",
    "stands": "it stands still: no step after step {step} since {since} UTC",
    "stands_first": "it stands still: no first step since {since} UTC",
    "stands_then": "when these events end, ",
    "rank_failed": "rank {rank} on {host} failed first, in generation {generation}",
    "rank_hung": "rank {rank} on {host} stopped first, in generation {generation}",
    "host_failed": "generation {generation} ended",
    "stop": ".",
    "why": "Why",
    "seen": "What was seen",
    "told": "As it was told",
    "first": "First restart",
    "last": "Last restart",
    "to_do": "What to do",
    "advice.nothing": "Nothing.",
    "advice.look_back": "Nothing for this job. Before the next one, look at what ended its "
    "generations, below.",
    "advice.look_early": "If the training was to end there, as with early stopping: nothing. Else "
    "read the last lines of the ranks' logs. If a script pipes the training into another program, "
    "write set -o pipefail in it, so that a failure counts as one.",
    "advice.look_open": "See whether it still runs: ascend-supervisorctl status. If its pod is "
    "gone, its supervisor was killed before it could say more; the pod's description says why. If "
    "the disk of the log directory is full, its last words are only on its console (kubectl logs).",
    "advice.who_stopped": "If that was not meant, look who sent the signal: the scheduler, the "
    "platform, an operator.",
    "saved": " Another start can go on from the checkpoint of step {step}.",
    "unsaved": " No checkpoint was seen in the output: another start may begin anew.",
    "advice.runs": "Nothing. ascend-supervisorctl status shows how far it is now.",
    "advice.stands": "Look where the ranks wait. If they hang, end this generation: "
    "ascend-supervisorctl restart; --hang-timeout auto does so by itself.",
    "advice.correct": "Correct what the sentence names; another try without that fails the same "
    "way.",
    "advice.device": "Do what the sentence says. If it says nothing, free the device or the "
    "resource that it names, or let the scheduler take another host; then start again.",
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
    "account.of": "({time} in all)",
    "progress": "Progress",
    "progress.to": "to step {step}",
    "progress.of": "to step {step} of {steps}",
    "progress.saved": "checkpoint of step {step}",
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
    "failure.after": "{time} after the job began",
    "failure.where": "Where the ranks waited",
    "failure.files": "Files on {host}",
    "failure.lines": "Last lines",
    "failure.lost": "{steps} steps lost",
    "failure.then": "Other servers, later",
    "settings": "Settings",
    "settings.defaults": "All settings are defaults.",
    "settings.command": "Command",
    "settings.differ": "Settings of {host}",
    "versions": "Versions and size",
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
    "kind.release": "release of the devices",
    "kind.restarting": "between generations",
    "kind.unknown": "without a step",
    "bar": "{kind}, {begin} to {end}",
    "generation": "generation {generation}",
    "ranks": "ranks {ranks}",
}
_CHINESE: Words = {
    "colon": "：",
    "comma": "，",
    "gap": "",
    "title": "作业 {name}",
    "done": "作业在 {time} 后正常结束，退出码 0",
    "done_again": "作业在 {time} 后正常结束，期间重启 {restarts} 次",
    "done_doubtful": "作业在 {time} 后以退出码 0 结束，但可能并未真正完成；重启 {restarts} 次",
    "failed": "作业在 {time} 后失败，退出码 {code}",
    "stopped": "作业在 {time} 后被停止，退出码 {code}",
    "open": "作业已运行 {time}；事件中没有作业结束的记录",
    "runs": "作业已运行 {time}，仍在运行",
    "ran": "作业已运行 {time}；",
    "stands": "训练停滞：自 {since} UTC 起，step {step} 之后再没有完成新的 step",
    "stands_first": "训练停滞：自 {since} UTC 起，第一个 step 一直没有完成",
    "stands_then": "截至最后一个事件，",
    "rank_failed": "{host} 上的 rank {rank} 最先失败（第 {generation} 代）",
    "rank_hung": "{host} 上的 rank {rank} 最先卡住（第 {generation} 代）",
    "host_failed": "第 {generation} 代结束",
    "stop": "。",
    "why": "原因",
    "seen": "现象",
    "told": "原始报错",
    "first": "第一次重启",
    "last": "最后一次重启",
    "to_do": "处理方法",
    "advice.nothing": "无需处理。",
    "advice.look_back": "本次作业无需处理。下次运行前，请先排查下面列出的各代结束原因。",
    "advice.look_early": "如果训练本应在此结束（如提前停止），无需处理。否则请查看各 rank "
    "日志的最后几行。如果脚本用管道把训练的输出交给其他程序，请在脚本中加上 set -o pipefail，"
    "使失败不被掩盖。",
    "advice.look_open": "用 ascend-supervisorctl status 查看它是否仍在运行。如果 Pod 已不在，说明 "
    "supervisor 在写完事件之前已被强制终止，请查看 Pod 的事件（kubectl describe pod）。"
    "如果日志目录所在磁盘已满，最后的事件只在控制台输出中（kubectl logs）。",
    "advice.who_stopped": "如果不是有意停止，请排查信号的来源：调度器、平台，还是人工操作。",
    "saved": "再次启动后，可从 step {step} 的 CheckPoint 断点续训。",
    "unsaved": "输出中没有保存 CheckPoint 的记录，再次启动后可能要从头训练。",
    "advice.runs": "无需处理。用 ascend-supervisorctl status 查看当前进度。",
    "advice.stands": "查看各 rank 卡在何处。如果确已卡死，用 ascend-supervisorctl restart "
    "终止这一代；设置 --hang-timeout auto 时会自动终止。",
    "advice.correct": "请根据上述报错修改；不修改就重试，仍会失败。",
    "advice.device": "请根据上述报错处理。其中没有给出处理方法时，请释放所涉及的设备或资源，"
    "或由调度器更换节点，然后重新启动。",
    "advice.table": "检查集群是否已调度所有 Pod，以及 rank table 的卷是否已挂载。",
    "advice.defect": "请上报该问题，并附上 supervisor.defect 事件中的 traceback，然后重新启动。",
    "advice.elsewhere": "这是连带后果，请查看上述报错所指的 rank 或节点。",
    "advice.memory": "提高 Pod 的内存上限，或减少 rank 的内存占用：减少数据加载进程数，或减小"
    " batch size。",
    "advice.hang": "查看下面各 rank 卡在何处，从最先卡住的 rank 看起。"
    "如果只是运行较慢，请调大时限。",
    "advice.read_lines": "请先看下面列出的该 rank 最后几行输出，再看它的完整日志。其他 rank 随后的"
    "报错是连带后果。",
    "advice.read_sentence": "请先看上述报错，再看各 rank 的日志。",
    "account": "耗时分布",
    "account.of": "（共 {time}）",
    "progress": "训练进度",
    "progress.to": "（已到 step {step}）",
    "progress.of": "（已到 step {step}，共 {steps}）",
    "progress.saved": "CheckPoint：step {step}",
    "progress.about": "step 随时间的变化。圆点是 CheckPoint，虚线是一代的开始。",
    "steps": "step {step}",
    "timeline": "时间线",
    "timeline.about": "每个节点一行；时间从左到右，从 {begin} UTC 开始。下方的细条是运行时长"
    "与其他 rank 不同的 rank，红色为最先失败的 rank。数字对应下面的原因编号。",
    "timeline.others": "另有 {count} 个节点未显示",
    "flag": "{number}：rank {rank}",
    "failures": "各代结束原因",
    "failures.none": "无。",
    "failures.more": "还有 {count} 个未显示。",
    "failure.after": "作业开始 {time} 后",
    "failure.where": "各 rank 卡在何处",
    "failure.files": "{host} 上的文件",
    "failure.lines": "最后几行",
    "failure.lost": "丢失 {steps} 个 step",
    "failure.then": "其他节点随后的情况",
    "settings": "设置",
    "settings.defaults": "所有设置均为默认值。",
    "settings.command": "命令",
    "settings.differ": "{host} 的设置",
    "versions": "版本与规模",
    "version": "ascend_supervisor {version}",
    "method": "启动方式 {method}，集群信息来自 {cluster}",
    "size": "{servers} 个节点，{ranks} 个 rank；重启 {restarts} 次",
    "category": "类别",
    "time": "时间",
    "share": "占比",
    "kind.waiting": "等待",
    "kind.start": "启动",
    "kind.training": "训练",
    "kind.trained_again": "重复训练",
    "kind.stalled": "停滞",
    "kind.running": "rank 运行中",
    "kind.stopping": "停止",
    "kind.drain": "drain",
    "kind.grace": "优雅退出",
    "kind.release": "等待 NPU 释放",
    "kind.restarting": "两代之间",
    "kind.unknown": "未见 step",
    "bar": "{kind}，{begin} 至 {end}",
    "generation": "第 {generation} 代",
    "ranks": "rank {ranks}",
}
WORDS: Mapping[Language, Words] = {"en": _ENGLISH, "zh": _CHINESE}
