"""The table of all options: every spelling, every default and the help come from it."""

from __future__ import annotations

from typing import get_args

from ascend_supervisor import errors
from ascend_supervisor.causes.diagnosis import LanguageChoice
from ascend_supervisor.settings.alert_options import ALERTS, ANYTHING, read_server_check
from ascend_supervisor.settings.kinds import (
    COMMAND_LINE,
    DEVICE_COUNT,
    DURATION,
    FLAG,
    NOT_IN_A_FILE,
    PATH,
    PORT,
    RANKS,
    SIZE,
    Group,
    Kind,
    Option,
    choice,
    whole,
)
from ascend_supervisor.settings.peers_options import PEERS
from ascend_supervisor.settings.readers import (
    Color,
    ConsoleFormat,
    LogLevel,
    Method,
    RankDir,
    read_cpu_binding,
    read_listen_address,
    read_metrics_path,
    read_path,
    read_path_or_none,
    read_paths,
    read_text,
)
from ascend_supervisor.settings.recovery_options import CLUSTER, HANGS, RESTARTS, TRAINING
from ascend_supervisor.settings.user_variables import read_rank_variables, shown_variable

METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT_METHOD: Method = "ranktable"

GROUPS: tuple[Group, ...] = (
    (
        "Which machine this is",
        (
            Option(
                "rank-table",
                PATH,
                "the rank table, or the directory that will hold it",
                otherwise="where the platform puts it",
            ),
            Option(
                "rank-table-timeout",
                DURATION,
                "how long to wait until the table is completed, then exit with "
                f"{errors.TABLE_NOT_READY}; 0 waits for ever",
                default="1800",
            ),
            Option(
                "pod-name",
                Kind("NAME", read_text),
                "this pod's name in the table",
                otherwise="from the environment",
            ),
            Option(
                "server-id",
                Kind("ID", read_text),
                "this server's entry in the table",
                otherwise="from the environment",
            ),
            Option(
                "node-rank",
                whole("N"),
                "this server's number, from 0",
                otherwise="from the environment",
            ),
            Option(
                "standalone",
                DEVICE_COUNT,
                "no cluster, no rank table: N devices of this machine; without N those present, "
                "else 1",
            ),
        ),
    ),
    (
        "What is started",
        (
            Option(
                "method",
                choice("NAME", METHODS),
                f"how ranks are started: {', '.join(METHODS)}",
                default=DEFAULT_METHOD,
                otherwise=f"MA_RUN_METHOD; mindspore in MindSpore pods; else {DEFAULT_METHOD}",
            ),
            Option(
                "master-port",
                PORT,
                "rendezvous port of rank 0, the same on all servers",
                otherwise="MASTER_PORT, else the method's own",
            ),
            Option(
                "rank-dir",
                choice("WHERE", get_args(RankDir)),
                "where ranks start: device (in device<local rank> of the work directory), "
                "rank (in rank<rank>), same (where the supervisor was started)",
                otherwise="device; without --work-dir same for --standalone, --servers and PyTorch "
                "and TensorFlow variables",
            ),
            Option(
                "env-from",
                Kind("FILE", read_paths, repeats=True),
                "a shell file, such as CANN's set_env.sh: bash sources it once, and ranks get what "
                "it changes; may be repeated",
            ),
            Option(
                "rank-env",
                Kind("NAME=VALUE", read_rank_variables, repeats=True, shown=shown_variable),
                "a variable for each rank, with {rank}, {local_rank}, {device_id}, {node_rank}, "
                "{world_size}, {rank_dir}, {log_dir}, {generation}, and {{ for a brace; may be "
                "repeated",
            ),
            Option(
                "work-dir",
                Kind("DIR", read_path),
                "parent of the ranks' working directories device<N>",
                otherwise="where the platform puts them",
            ),
            Option(
                "log-dir",
                Kind("DIR", read_path),
                "directory of the ranks' logs",
                otherwise="where the platform puts them",
            ),
            Option(
                "server-check",
                Kind("HOW", read_server_check, shown=lambda _: ANYTHING),
                "whether this server is fit, before each generation: auto (our own check), off, or "
                "a command that ends with 0 if it is; with {rank} in it once for each rank",
                default="auto",
            ),
            Option(
                "code-digest",
                Kind("DIR", read_path),
                "with --peers: servers whose files below this directory differ are told before the "
                "first rank starts",
                otherwise="none",
                needs=("peers",),
            ),
            Option(
                "bind-cpus",
                Kind("HOW", read_cpu_binding),
                "CPUs for each rank: none, auto (near its NPU), or those of each local rank with / "
                "between, such as 0-11/12-23",
                default="none",
            ),
            Option(
                "bind-memory",
                FLAG,
                "ranks take memory of the NUMA node of their CPUs first",
                default="false",
                needs=("bind-cpus",),
            ),
        ),
    ),
    RESTARTS,
    CLUSTER,
    PEERS,
    (
        "Stopping",
        (
            Option("grace", DURATION, "from SIGTERM to SIGKILL", default="20"),
            Option(
                "drain",
                DURATION,
                "from the first failure to SIGTERM: time for a last checkpoint",
                default="0",
                otherwise="0, or as long as TTP needs where the environment shows it",
            ),
            Option(
                "release-delay",
                DURATION,
                "from the end of the last process to the next start",
                otherwise="10 where /dev/davinci* exist, else 0",
            ),
        ),
    ),
    TRAINING,
    HANGS,
    (
        "Output",
        (
            Option(
                "console",
                choice("FORMAT", get_args(ConsoleFormat)),
                f"format of stdout: {', '.join(get_args(ConsoleFormat))}; "
                "auto is text on a terminal, else json",
                default="auto",
            ),
            Option(
                "console-ranks",
                RANKS,
                "whose output stdout repeats: all, none, or a list such as 0,8-15",
                default="all",
            ),
            Option(
                "color",
                choice("WHEN", get_args(Color)),
                f"colours in text for people: {', '.join(get_args(Color))}; auto is on a terminal, "
                "unless NO_COLOR is set",
                default="auto",
            ),
            Option("log-max-size", SIZE, "a rank's log is rotated at this size", default="256MiB"),
            Option("log-keep", whole("N"), "rotated logs kept for each rank", default="3"),
            Option(
                "plog-keep",
                whole("N"),
                "of how many ended generations CANN's own logs (plog) are kept, when the next one "
                "starts",
                otherwise="all",
            ),
            Option(
                "log-level",
                choice("LEVEL", get_args(LogLevel)),
                f"of our own events: {', '.join(get_args(LogLevel))}",
                default="info",
            ),
            Option(
                "language",
                choice("LANG", get_args(LanguageChoice)),
                "of the cause and what to do, at the end: auto, en, zh; auto is that of LC_ALL, "
                "LC_MESSAGES or LANG",
                default="auto",
            ),
            Option(
                "state-file",
                PATH,
                "current status of the supervisor, as JSON",
                otherwise="<log dir>/<JOB_ID>-supervisor-<pod or host>.json",
            ),
            Option(
                "event-log",
                Kind("PATH", read_path_or_none),
                "the last 16 MiB of events, as JSON lines; none keeps no such file",
                otherwise="<JOB_ID>-supervisor-<pod or host>.events.jsonl, beside the state file",
            ),
            Option(
                "termination-log",
                PATH,
                "the cause, in short, when the job fails",
                otherwise="/dev/termination-log if it exists",
            ),
            Option(
                "metrics-file",
                Kind("PATH", read_metrics_path),
                "figures for Prometheus, in a *.prom file for node_exporter's textfile collector",
                otherwise="off",
            ),
            Option(
                "metrics-npu-exporter",
                Kind("DIR", read_path),
                "ten of these figures, in JSON files for npu-exporter of MindCluster",
                otherwise="off",
            ),
            Option(
                "metrics-address",
                Kind("HOST:PORT", read_listen_address),
                "where Prometheus and probes ask over HTTP: /metrics, /healthz, /readyz; :PORT "
                "listens at all addresses",
                otherwise="off",
            ),
        ),
    ),
    ALERTS,
    (
        "This program",
        (
            Option("check", FLAG, "print the plan and start nothing", default="false"),
            Option(
                "json",
                FLAG,
                "with --check: the whole plan as JSON, as where stdout is no terminal",
                default="false",
                needs=("check",),
            ),
            Option("config", Kind("FILE", read_path), "settings in TOML", places=NOT_IN_A_FILE),
            Option("version", FLAG, "print the version", default="false", places=COMMAND_LINE),
            Option("help", FLAG, "print this (also -h)", default="false", places=COMMAND_LINE),
        ),
    ),
)

OPTIONS: tuple[Option, ...] = tuple(option for _, group in GROUPS for option in group)
