"""The account of the time is true: of real jobs by a script of chance, each second is where it was.

ACCOUNT_JOBS=50 runs so many. Those after the first SHORT ones go on for a third of a minute.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

from ascend_supervisor.progress.account import CATEGORIES
from tests.etcd.fixtures import etcd, etcd_server
from tests.etcd.servers import EtcdServer
from tests.jobs import scripted_rank
from tests.jobs.scripted import HANG_SECONDS, SHORT, Script, last, lateness, script_of, truth
from tests.peers.servers import FENCE, TIMEOUT, TTL, table_of
from tests.running import Event, Running

__all__ = ["etcd", "etcd_server"]

JOBS = int(os.environ.get("ACCOUNT_JOBS", str(SHORT)))
OF_ALL = 0.01
SEEN_SECONDS = 0.15
"""So far off may be a short job in what its ranks see whole: steps are a third of that."""
UNSEEN = frozenset({"waiting", "stopping", "restarting"})
UNSEEN_SECONDS = 0.5
"""So far off in the others, for each server: when it has cleaned up, no rank is there to see."""
TIMES_LATE = 3
"""By so many times the latest sleep: a busy machine does everything late."""
OPTIONS = ("--restarts", "9", "--restart-delay", "0", "--restart-delay-max", "1", "--grace", "20")
"""The release delay is all the time between two generations."""
PEERS = ("--peers-ttl", str(TTL), "--peers-fence", str(FENCE), "--peers-timeout", str(TIMEOUT))


class Play:
    """The supervisors of one scripted job, with a table that comes as late as the script says."""

    def __init__(
        self,
        script: Script,
        root: Path,
        supervised: Callable[..., Running],
        etcd_here: EtcdServer | None,
    ) -> None:
        self.script = script
        self.root = root
        self.table = root / "table.json"
        self.servers: list[Running] = []
        self._supervised = supervised
        self._peers: tuple[str, ...] = ()
        if etcd_here is not None:
            self._peers = ("--peers", etcd_here.url, "--peers-job", "scripted", *PEERS)

    def run(self) -> None:
        if not self.script.plans[0][0].late:
            self.write_table()
        for server in range(len(self.script.plans)):
            time.sleep(self.script.second * server)
            self.servers.append(self.start(server))
        self.write_late_tables()

    def diary(self, server: int) -> Path:
        return self.root / f"diary-{server}"

    def start(self, server: int) -> Running:
        plans = self.root / f"plans-{server}"
        plans.write_text(json.dumps([asdict(plan) for plan in self.script.plans[server]]))
        hangs = any(plan.end == "hang" for plan in self.script.plans[server])
        limits = ("--hang-timeout", str(HANG_SECONDS), "--startup-timeout", "60") if hangs else ()
        (home := self.root / f"server-{server}").mkdir()
        return self._supervised(
            *self._peers,
            *("--rank-table", str(self.table), "--node-rank", str(server), *limits),
            *OPTIONS,
            *("--release-delay", str(self.script.delay)),
            *("--", sys.executable, "-S", scripted_rank.__file__),
            environ={"PLANS": str(plans), "DIARY": str(self.diary(server))},
            root=home,
        )

    def write_table(self) -> None:
        new = self.table.with_suffix(".new")
        new.write_text(json.dumps(table_of(len(self.script.plans))))
        new.replace(self.table)

    def write_late_tables(self) -> None:
        """As late as the script says, each time when it is waited for."""
        waits = self.servers[0].each("rank_table.waiting")
        for plan in self.script.plans[0]:
            if plan.late:
                next(waits)
                time.sleep(plan.late)
                self.write_table()
        if self.script.stopped_after is not None:
            next(waits)
            time.sleep(self.script.stopped_after)
            for server in self.servers:
                server.send(signal.SIGTERM)


def moment(event: Event) -> float:
    """Of an event, by the monotonic clock."""
    stamp = datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()
    return stamp - time.time() + time.monotonic()


@pytest.fixture
def play(
    seed: int,
    tmp_path: Path,
    supervised: Callable[..., Running],
    request: pytest.FixtureRequest,
) -> Play:
    """The job of this seed; with a real etcd if it has two servers."""
    script = script_of(seed, str(tmp_path / "table.json"))
    etcd_here = request.getfixturevalue("etcd") if len(script.plans) > 1 else None
    return Play(script, tmp_path, supervised, etcd_here)


@pytest.mark.parametrize("seed", range(JOBS))
def test_each_category_is_within_a_hundredth_of_the_truth(play, seed, record_property):
    play.run()
    for server, job in enumerate(play.servers):
        job.end()
        begin, diary = moment(job.events[0]), play.diary(server)
        found = job.events[-1]["account"]
        spent = sum(found.values())
        # An account ends when nothing is left but to write it down.
        assert last(diary) - begin < spent < moment(job.events[-1]) - begin + 0.05
        true = truth(diary, begin, begin + spent, play.script)
        off = {one: round(found[one] - true[one], 3) for one in CATEGORIES}
        late = TIMES_LATE * lateness(diary, play.script.plans[server])
        record_property(f"off-{server}", json.dumps([play.script.losses, spent, off, late]))
        unseen = UNSEEN_SECONDS * len(play.servers)
        most = {one: unseen if one in UNSEEN else SEEN_SECONDS for one in CATEGORIES}
        most = {one: max(OF_ALL * spent, seconds) + late for one, seconds in most.items()}
        assert {one: error for one, error in off.items() if abs(error) > most[one]} == {}
