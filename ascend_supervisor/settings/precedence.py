"""The settings of one run, from command line, environment and TOML file; does no I/O itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import LanguageChoice
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.settings.alert_options import AlertFormat, AlertKind, EventProgram, Webhook
from ascend_supervisor.settings.command_words import command_fault, options_within
from ascend_supervisor.settings.kinds import Option, Source
from ascend_supervisor.settings.options import DEFAULT_METHOD, OPTIONS
from ascend_supervisor.settings.peers_checks import contradictions
from ascend_supervisor.settings.peers_options import OwnEtcd
from ascend_supervisor.settings.readers import (
    Color,
    ConsoleFormat,
    CpuBinding,
    HangDump,
    ListenAddress,
    LogLevel,
    Method,
    ProgressSource,
    RankDir,
    RankSet,
    ServerCheckChoice,
    StallNotice,
)
from ascend_supervisor.settings.shell_text import switched_on
from ascend_supervisor.settings.sources import (
    Given,
    from_environment,
    from_file,
    from_platform,
    split_command_line,
)
from ascend_supervisor.settings.user_variables import RankVariable

NO_COMMAND = (
    "no command was given: write what each rank runs after the options, "
    "such as ascend-supervisor --restarts 3 -- python /code/train.py"
)


class Help(Struct, frozen=True):
    """The user asked for the help."""


class Version(Struct, frozen=True):
    """The user asked for the version."""


class Settings(Struct, frozen=True):
    """Every option's value (times in seconds, sizes in bytes), and what each rank runs.

    None means that the option was not given and that its default is found later.
    ``is_marked``: -- stands before the command, so that its words are surely its own.
    ``sources`` names the source of each value that is not a default, by the option's name;
    ``variables`` those that the environment's values come from.
    """

    rank_table: Path | None
    rank_table_timeout: float  # 0 waits for ever
    pod_name: str | None
    server_id: str | None
    node_rank: int | None
    standalone: int | None  # None: not asked for; 0: as many devices as there are
    method: Method
    master_port: int | None
    rank_dir: RankDir | None
    env_from: tuple[Path, ...]
    rank_env: tuple[RankVariable, ...]
    work_dir: Path | None
    log_dir: Path | None
    server_check: EventProgram | ServerCheckChoice
    code_digest: Path | None
    bind_cpus: CpuBinding
    bind_memory: bool
    restarts: int
    restart_period: float | None  # None: unlimited
    restart_delay: float
    restart_delay_max: float  # never less than restart_delay
    min_uptime: float
    no_restart_on: frozenset[int]
    no_restart_on_cause: frozenset[str]
    no_progress_limit: int
    warm: bool
    warm_import: tuple[str, ...]
    follow_cluster: bool
    cluster_verdict: float
    reset_file: Path
    reset_grace: float
    retryable_exit_code: int | None  # None: the failure's own
    exit_linger: float
    peers: tuple[Endpoint, ...] | OwnEtcd | None
    peers_port: int
    peers_ca: Path | None
    peers_user: str | None
    peers_password_file: Path | None
    peers_ttl: int
    peers_fence: float
    peers_timeout: float
    peers_job: str | None  # None: MINDX_TASK_ID, else JOB_ID
    peers_failures: tuple[int, int]
    servers: int | None  # None: as many as the rank table says
    grace: float
    drain: float
    release_delay: float | None
    progress: ProgressSource
    progress_pattern: tuple[str, ...]
    progress_interval: float
    stall_notice: StallNotice
    hang_timeout: float | Literal["auto"] | None  # None, of these four: off
    rank_hang_timeout: float | None
    watchdog: float | None
    startup_timeout: float | None
    hang_dump: HangDump
    console: ConsoleFormat
    console_ranks: RankSet
    color: Color
    log_max_size: int
    log_keep: int
    plog_keep: int | None  # None: all
    log_level: LogLevel
    language: LanguageChoice
    state_file: Path | None
    event_log: Path | Literal["none"] | None  # None: beside the state file
    termination_log: Path | None
    metrics_file: Path | None
    metrics_npu_exporter: Path | None
    metrics_address: ListenAddress | None
    on_event: EventProgram | None
    notify_url: tuple[Webhook, ...]
    notify_url_file: Path | None
    notify_format: AlertFormat
    notify_ca: Path | None
    notify_on: tuple[AlertKind, ...]
    check: bool
    json: bool
    config: Path | None
    command: tuple[str, ...]
    is_marked: bool
    sources: Mapping[str, Source]
    variables: Mapping[str, str]

    @property
    def non_defaults(self) -> tuple[str, ...]:
        """The settings that are not defaults, such as ``grace=5.0 (command line)``.

        A variable is named: ``method=mindspore (environment: MS_ROLE)``.
        """
        return tuple(
            f"{name}={_told(getattr(self, name.replace('-', '_')))} ({self._source(name)})"
            for name in self.sources
        )

    def _source(self, name: str) -> str:
        variable = self.variables.get(name)
        return f"{self.sources[name]}: {variable}" if variable else self.sources[name]


def _method(given: Mapping[str, Given]) -> Method:
    method: Method = given["method"].value if "method" in given else DEFAULT_METHOD
    return method


def _rank_variables(given: Mapping[str, Given]) -> dict[str, str]:
    """Those that the user sets for ranks, with names in braces as they are."""
    found = given["rank-env"].value if "rank-env" in given else ()
    return {variable.name: variable.template for variable in found}


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_told, value))
    if isinstance(value, (RankVariable, Signals)):
        return value.name  # the value of a variable may be a secret
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else str(value)


def read_settings(
    argv: Sequence[str], environ: Mapping[str, str], read_file: Callable[[str], bytes]
) -> Settings | Help | Version:
    """The settings; ``argv`` is without the program's name, ``read_file`` may raise OSError.

    Raises SettingsRefused with the faults of all three sources together.
    """
    faults: list[str] = []
    words, command = split_command_line(argv, faults)
    for word in words:
        if word.option.name in {"help", "version"}:
            return Help() if word.option.name == "help" else Version()
    words = (*from_environment(environ, faults), *words)
    given = _understood(words, faults)
    if "config" in given:
        in_file = tuple(from_file(given["config"], read_file, faults))
        given = _understood(in_file, faults) | given
        words += in_file
    platform = (word for word in from_platform(environ) if word.option.name not in given)
    given = _understood(platform, faults) | given
    unreadable = {word.option.name for word in words} - given.keys()
    faults += contradictions(given, environ, unreadable)
    if not any(command[:1]):
        faults.append(NO_COMMAND)
    elif fault := command_fault(
        _method(given), command, switched_on({**environ, **_rank_variables(given)})
    ):
        faults.append(fault)
    if faults:
        raise SettingsRefused(*faults)
    is_marked = "--" in argv[: len(argv) - len(command)][-1:]
    return _settled(given, command, is_marked)


class Telling(Struct, frozen=True):
    """Where a refusal is told; a ``check`` is a question, and no end of a container."""

    console: ConsoleFormat
    termination_log: Path | None
    check: bool

    @classmethod
    def of(cls, settings: Settings) -> Telling:
        return cls(settings.console, settings.termination_log, settings.check)


def telling_of(argv: Sequence[str], environ: Mapping[str, str]) -> Telling:
    """Where a refusal of the other settings is told, as far as these can be read themselves."""
    ignored: list[str] = []
    words, _ = split_command_line(argv, ignored)
    given = _understood((*from_environment(environ, ignored), *words), ignored)

    values = {name: word.value for name, word in given.items()}
    is_check = bool(values.get("check"))
    return Telling(values.get("console", "auto"), values.get("termination-log"), is_check)


def _understood(words: Iterable[Given], faults: list[str]) -> dict[str, Given]:
    """The readable values by the option's name; the last one wins, or adds to its source's."""
    read = (_with_value(word, faults) for word in words)
    found: dict[str, Given] = {}
    for word in filter(None, read):
        name = word.option.name
        found[name] = _added(found[name], word) if name in found else word
    return found


def _added(earlier: Given, word: Given) -> Given:
    if not word.option.kind.repeats or word.source != earlier.source:
        return word
    return replace(word, value=(*earlier.value, *word.value))


def _with_value(word: Given, faults: list[str]) -> Given | None:
    try:
        return replace(word, value=word.option.kind.read(word.value))
    except ValueError as expected:
        faults.append(
            f"{word.where}: expected {expected}, found {word.option.kind.shown(word.value)}"
        )
        return None


def _settled(given: Mapping[str, Given], command: tuple[str, ...], is_marked: bool) -> Settings:
    values: dict[str, Any] = {
        option.key: given[option.name].value if option.name in given else option.default_value
        for option in OPTIONS
        if "environment" in option.places
    }
    # Of these two, the one that was given wins over the other's default.
    delay, most = values["restart_delay"], values["restart_delay_max"]
    if "restart-delay" in given:
        values["restart_delay_max"] = max(delay, most)
    else:
        values["restart_delay"] = min(delay, most)
    sources = {name: word.source for name, word in given.items()}
    variables = {name: word.where for name, word in given.items() if word.source == "environment"}
    return Settings(
        **values, command=command, is_marked=is_marked, sources=sources, variables=variables
    )


def swallowed_options(settings: Settings) -> str | None:
    """A sentence that names options of ours that went to the command; None without any."""
    found = () if settings.is_marked else options_within(settings.command)
    if not found:
        return None
    return (
        f"{', '.join(found)}: the supervisor reads no options in COMMAND; write this before "
        "COMMAND, or, if COMMAND takes it, write -- before COMMAND"
    )


def idle_options(settings: Settings) -> str | None:
    """A sentence that names those of the command line and the environment; None without any.

    A file may serve many jobs, so what stands there and does nothing is not told.
    """
    told = [
        f"{_given_as(option, settings)} does nothing without "
        + " or ".join(f"--{name}" for name in option.needs)
        for option in OPTIONS
        if _is_idle(option, settings)
    ]
    return f"{'; '.join(told)}: add that option, or leave this one out" if told else None


def _is_idle(option: Option, settings: Settings) -> bool:
    if not option.needs or settings.sources.get(option.name, "file") == "file":
        return False
    values = (getattr(settings, name.replace("-", "_")) for name in option.needs)
    return not any(value and value != "none" for value in values)


def _given_as(option: Option, settings: Settings) -> str:
    is_variable = settings.sources[option.name] == "environment"
    return option.variable if is_variable else option.flag
