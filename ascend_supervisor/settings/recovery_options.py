"""The options of restarts, of the cluster's own recovery, of the training's steps, of hangs."""

from __future__ import annotations

from typing import get_args

from ascend_supervisor.settings.kinds import (
    CAUSES,
    CODES,
    DURATION,
    FAILURE_CODE,
    FLAG,
    PATH,
    PERIOD,
    Group,
    Kind,
    Option,
    choice,
    whole,
)
from ascend_supervisor.settings.readers import (
    ProgressSource,
    StallNotice,
    read_hang_dump,
    read_hang_timeout,
    read_modules,
    read_progress_patterns,
)

RESTARTS: Group = (
    "Restarts",
    (
        Option(
            "restarts",
            whole("N"),
            "restarts allowed after failures; on several servers only with --peers",
            default="0",
        ),
        Option(
            "restart-period",
            PERIOD,
            "sliding window for --restarts",
            otherwise="unlimited",
        ),
        Option(
            "restart-delay",
            DURATION,
            "upper limit of the random wait before the first restart; doubles with each one",
            default="1",
        ),
        Option("restart-delay-max", DURATION, "what that limit grows to", default="60"),
        Option(
            "min-uptime",
            DURATION,
            "end the job after three generations in a row that ended the same way, each "
            "sooner than this",
            default="10",
        ),
        Option(
            "no-restart-on",
            CODES,
            "exit statuses that are never retried",
            default="125,126,127",
        ),
        Option(
            "no-restart-on-cause",
            CAUSES,
            "causes that are never retried: ids or layers of docs/causes.md, such as user",
            default="",
        ),
        Option(
            "no-progress-limit",
            whole("N"),
            "end the job after N charged generations in a row that came no further than the best "
            "step before them; 0 is no limit",
            default="3",
        ),
        Option(
            "warm",
            FLAG,
            "keep a standby for each rank that has made its imports, so that the next generation "
            "trains sooner (COMMAND: python and a script or -m; it costs memory)",
            default="false",
        ),
        Option(
            "warm-import",
            Kind("NAME", read_modules, repeats=True),
            "a further module that standbys import, of an installed package; may be repeated",
            needs=("warm",),
        ),
    ),
)

CLUSTER: Group = (
    "The cluster's own recovery",
    (
        Option(
            "follow-cluster",
            FLAG,
            "end and restart the ranks when MindCluster's rank table or reset file asks for it",
            default="false",
        ),
        Option(
            "cluster-verdict",
            DURATION,
            "with --follow-cluster on several servers: how long a failure here waits for the "
            "cluster to act, before this server ends",
            default="30",
            needs=("follow-cluster",),
        ),
        Option(
            "reset-file",
            PATH,
            "the reset file of MindCluster",
            default="/user/restore/reset/config/reset.json",
            needs=("follow-cluster",),
        ),
        Option(
            "reset-grace",
            DURATION,
            "from SIGTERM to SIGKILL for healthy ranks while an NPU of this server waits for its "
            "reset",
            default="0",
            needs=("follow-cluster",),
        ),
        Option(
            "retryable-exit-code",
            FAILURE_CODE,
            "exit with CODE after a failure that the cluster may retry",
            otherwise="the failure's own code",
        ),
        Option(
            "exit-linger",
            DURATION,
            "after a failure the first server of the job ends this much later than the others, so "
            "that not all pods have failed at once",
            default="0",
        ),
    ),
)

TRAINING: Group = (
    "How far the training is",
    (
        Option(
            "progress",
            choice("WHEN", get_args(ProgressSource)),
            "read steps from the output of the ranks and their messages: auto, off",
            default="auto",
        ),
        Option(
            "progress-pattern",
            Kind("REGEX", read_progress_patterns, repeats=True),
            "a line of the ranks that tells a step, as a Python regular expression with the named "
            "group step or checkpoint, and steps, epoch, seconds, resumed where it has them; may "
            "be repeated",
        ),
        Option(
            "progress-interval",
            PERIOD,
            "how often training.progress is reported at most",
            default="60",
        ),
        Option(
            "stall-notice",
            choice("WHEN", get_args(StallNotice)),
            "report when no step comes for five times the longest pause so far: on, off",
            default="on",
        ),
    ),
)

HANGS: Group = (
    "Hangs",
    (
        Option(
            "hang-timeout",
            Kind("S", read_hang_timeout),
            "end the generation if no rank of this server has given a sign of life (output, or a "
            "message to NOTIFY_SOCKET) for this long; auto learns the limit from the pauses "
            "between steps",
            otherwise="off",
        ),
        Option(
            "rank-hang-timeout",
            PERIOD,
            "end the generation if one rank has given no sign of life for this long, even if "
            "others have",
            otherwise="off",
        ),
        Option(
            "watchdog",
            PERIOD,
            "end the generation if a rank has not sent WATCHDOG=1 (sd_notify) for this long",
            otherwise="off",
        ),
        Option(
            "startup-timeout",
            PERIOD,
            "limit until a rank's first sign of life, in place of the three above",
            otherwise="the same limits as later",
        ),
        Option(
            "hang-dump",
            Kind("HOW", read_hang_dump),
            "how stacks are taken before a hung generation is ended: auto (py-spy if it is "
            "installed, else /proc), pyspy, none, or a signal such as SIGUSR1",
            default="auto",
        ),
    ),
)
