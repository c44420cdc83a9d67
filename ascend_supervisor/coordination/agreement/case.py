"""What one decision is made of."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.memory import PeerMemory
from ascend_supervisor.coordination.agreement.records import (
    About,
    Charges,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Seat,
    Spare,
)
from ascend_supervisor.coordination.agreement.situation import Clocks, JobRules, Ranks, Situation
from ascend_supervisor.coordination.agreement.view import View


class Home(Struct, frozen=True):
    """What is known without reading anything."""

    memory: PeerMemory
    clocks: Clocks
    situation: Situation
    rules: JobRules

    @property
    def index(self) -> int | None:
        """Ours; None if we have none."""
        return self.memory.index

    @property
    def has_ranks(self) -> bool:
        return self.situation.ranks is not Ranks.NONE

    @property
    def contact_age(self) -> float:
        return self.clocks.now - self.memory.contact

    @property
    def is_cautious(self) -> bool:
        """Whether what is missing in etcd proves nothing yet."""
        return self.clocks.now < self.memory.cautious_until

    def own_record(self, job: str) -> Member:
        own = self.rules.own
        place, host, machine = own.place, own.host, own.machine
        who = Member(job, own.incarnation, place, host=host, machine=machine)
        return replace(who, addresses=own.addresses, devices=own.devices)


class Case(Home, frozen=True):
    """The same with what was read just now."""

    view: View

    @property
    def job(self) -> str:
        """The id of the job in etcd; empty if there is none."""
        return self.view.epoch.job if self.view.epoch else ""

    @property
    def about(self) -> About:
        return self.view.about or self.first_about

    @property
    def first_about(self) -> About:
        """That of a job which begins."""
        charges = Charges(stuck=self.rules.budget.stuck)
        return About("", self.rules.settings, charges=charges)

    @property
    def roster(self) -> tuple[Seat, ...]:
        return self.about.roster

    @property
    def gathering(self) -> int | None:
        """The generation that the job gathers for; None in another phase."""
        return self._generation_in(Phase.GATHER)

    @property
    def running(self) -> int | None:
        """The generation that the job runs; None in another phase."""
        return self._generation_in(Phase.RUN)

    def _generation_in(self, phase: Phase) -> int | None:
        epoch = self.view.epoch
        return epoch.generation if epoch is not None and epoch.phase is phase else None

    @property
    def epoch(self) -> Epoch:
        """That in etcd; only where there is one."""
        assert self.view.epoch is not None  # noqa: S101  (whoever asks knows the phase)
        return self.view.epoch

    @property
    def member(self) -> Member | None:
        """The record under our index, if it is ours."""
        one = self.view.members.get(self.index) if self.index is not None else None
        return one if one is not None and self.is_own(one) else None

    @property
    def in_roster(self) -> bool:
        index, roster = self.index, self.roster
        return index is not None and index < len(roster) and self.is_own(roster[index])

    def is_own(self, record: Member | Seat | PhaseMark | Spare) -> bool:
        return record.incarnation == self.rules.own.incarnation

    def has_done(self, index: int) -> bool:
        """Whether the ranks of this seat have all ended with 0."""
        mark = self.view.done.get(index)
        return mark is not None and mark.incarnation == self.roster[index].incarnation

    @property
    def all_done(self) -> bool:
        return (
            self.running is not None
            and len(self.roster) == self.rules.servers
            and all(map(self.has_done, range(self.rules.servers)))
        )

    @property
    def others_living(self) -> tuple[int, ...]:
        """The living members beside us, the next index first."""
        own = -1 if self.index is None else self.index
        others = [index for index in self.view.living if index != own]
        return tuple(sorted(others, key=lambda index: (index - own) % self.rules.servers))

    def own_key_names(self) -> tuple[str, ...]:
        """The keys of ours that hold a member in the job."""
        assert self.index is not None  # noqa: S101
        return records.server_key(self.index), records.alive_key(self.index)
