"""What the time of a job was spent on: every second in one category, a fold over events; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from ascend_supervisor.progress.reading import Lasting, StepNumber

Category = Literal[
    "waiting",
    "start",
    "training",
    "trained_again",
    "stalled",
    "stopping",
    "restarting",
    "unknown",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)

Doing = Literal["waiting", "starting", "stepping", "stopping", "restarting"]
NANOSECONDS = 10**9
MOST_PAUSE_SECONDS = 3600.0
"""A platform starts again sooner: if more seems to lie between, the clock was set, or it is a run
of another day."""
EPOCH = 1 << 40
"""More steps than an epoch has."""


class Position(NamedTuple):
    """A step of the job; ``epoch`` is 0 where steps are counted over all epochs."""

    epoch: int
    step: int

    @property
    def ordinal(self) -> int:
        """A number that goes up with every step, also where steps begin anew in each epoch."""
        return self.epoch * EPOCH + self.step


class KeptAccount(Struct, frozen=True):
    """What is kept of an account: a later start in the same place goes on with it.

    So does a server that joins the job later.

    ``account`` are seconds by category, to the millisecond: their sum is the whole time.
    ``percent_training`` is None while no step was seen. ``best_step`` is the furthest one, in the
    epoch ``best_epoch`` if steps are counted within epochs; None if epochs have no names, too.
    ``pauses`` were seen between steps, of which the longest tells how long a step may take.
    """

    account: Mapping[str, Lasting]
    percent_training: Lasting | None = None
    best_step: StepNumber | None = None
    best_epoch: StepNumber = 0
    generations: StepNumber = 0
    hangs: StepNumber = 0
    pauses: StepNumber = 0
    longest_pause_seconds: Lasting = 0.0

    def after(self, seconds: float, category: Category) -> KeptAccount:
        """The same, when further ``seconds`` have passed."""
        spent = self.account.get(category, 0.0) + seconds
        return replace(self, account={**self.account, category: spent})


class Account(Struct, frozen=True):
    """The account at one moment; each method gives the account after something has happened.

    ``now`` are seconds of a clock that goes on while we are stopped. What is told late, with a
    time before the latest change, counts as of that change. Times are nanoseconds inside, so that
    the categories add up exactly.

    ``spent`` is what lies before ``since``; what lies after it is spent on what we are ``doing``.
    ``stepless`` are starts that no step followed: they are `start` if the job shows steps at all,
    otherwise `unknown`. ``generation_start`` is the start of this generation, until its second
    step. Steps up to ``best_before`` were trained before. ``told`` counts the steps that were told
    together, of which ``last`` was the last one. ``is_comparable``: later generations can be
    compared with the best step.
    """

    since: int
    doing: Doing = "waiting"
    spent: Mapping[Category, int] = field(default_factory=dict)
    stepless: int = 0
    generation_start: int = 0
    longest_start: int = 0
    resumed_step: int = 0
    last: Position | None = None
    told: int = 1
    best: Position | None = None
    best_before: Position | None = None
    generations: int = 0
    hangs: int = 0
    is_comparable: bool = True

    def waits(self, now: float) -> Account:
        """For the rank table, for other servers, for a scheduler."""
        return _turned(self, "waiting", now)

    def starts(self, now: float) -> Account:
        """The first process of a generation."""
        return replace(
            _turned(self, "starting", now),
            generations=self.generations + 1,
            generation_start=0,
            resumed_step=0,
            last=None,
            best_before=self.best if self.is_comparable else None,
        )

    def compares_no_more(self) -> Account:
        """Epochs have begun that nobody names, so steps of later generations count as new ones.

        With which epoch they go on is not known.
        """
        return replace(self, is_comparable=False)

    def resumes(self, step: int) -> Account:
        """This generation goes on from a checkpoint of ``step``; told before its second step."""
        return replace(self, resumed_step=step)

    def steps(self, step: int, now: float, epoch: int = 0, told: int = 1) -> Account:
        """``step`` was seen; with its ``epoch`` if steps are counted within epochs.

        It is the last of so many that were ``told`` since the step seen before.

        The time since the step seen before belongs to all steps since then alike. A start ends
        with the first step. If more steps than one had been made when the first was seen, their
        time is taken from the start as soon as the second shows how long steps take.
        """
        position = Position(epoch, step)
        best = max(self.best or position, position)
        if self.doing == "starting":
            started = _spent(self, "start", now)
            start = started.since - self.since
            longest = max(start, self.longest_start)
            account = replace(started, generation_start=start, longest_start=longest)
            return replace(account, doing="stepping", last=position, told=told, best=best)
        if self.doing != "stepping" or self.last is None:
            return replace(self, best=best)
        if position == self.last:
            return self
        is_again = position < self.last and self.is_comparable
        account = replace(self, best_before=self.best) if is_again else self
        return replace(_trained(account, position, now, told), last=position, best=best)

    def stops(self, now: float, *, is_hang: bool = False, is_silent: bool = False) -> Account:
        """The first reason to end, of a generation or of all.

        ``is_hang``: it was noticed that the generation hangs. ``is_silent``: a stall was noticed,
        or the silence was longer than any pause between its steps. In both cases the time since
        its last step is `stalled`; of a start without a step what goes beyond the longest start
        before. Otherwise that time belongs to the step that was never finished.
        """
        if self.doing == "stopping":
            return self
        account = _stalled(self, now) if is_hang or is_silent else self
        account = replace(account, hangs=account.hangs + is_hang)
        return _turned(account, "stopping", now)

    def stopped(self, now: float) -> Account:
        """Nothing of the generation is left."""
        return _turned(self, "restarting", now)

    def nanoseconds(self, now: float) -> dict[Category, int]:
        """By category, all of them; they add up to all the time until ``now``."""
        account = _turned(self, self.doing, now)
        spent = {one: account.spent.get(one, 0) for one in CATEGORIES}
        spent["unknown" if self.best is None else "start"] += account.stepless
        return spent

    def kept(self, now: float, *, is_stalled: bool = False) -> KeptAccount:
        """``is_stalled``: the time since the last step counts as such for now."""
        account = _stalled(self, now) if is_stalled else self
        spent = account.nanoseconds(now)
        total = sum(spent.values())
        epoch, step = self.best or (0, None)
        known = step is not None and total > 0
        return KeptAccount(
            _seconds(spent),
            round(100 * spent["training"] / total, 1) if known else None,
            step if self.is_comparable else None,
            epoch if self.is_comparable else 0,
            self.generations,
            self.hangs,
        )


def beginning(now: float, earlier: KeptAccount | None = None) -> Account:
    """The account when the supervisor begins; ``earlier`` is that of earlier starts here."""
    account = Account(_nanoseconds(now))
    if earlier is None:
        return account
    spent = {one: _nanoseconds(earlier.account.get(one, 0.0)) for one in CATEGORIES}
    stepless = 0
    if earlier.percent_training is None:
        stepless = spent.pop("unknown")
    else:
        best = Position(earlier.best_epoch, earlier.best_step or 0)
        account = replace(account, best=best, is_comparable=earlier.best_step is not None)
    return replace(
        account,
        spent=spent,
        stepless=stepless,
        generations=earlier.generations,
        hangs=earlier.hangs,
    )


def _turned(account: Account, doing: Doing, now: float) -> Account:
    match account.doing:
        case "starting":
            at = _at(account, now)
            stepless = account.stepless + at - account.since
            account = replace(account, stepless=stepless, since=at)
        case "stepping":
            last, best = account.last, account.best_before
            is_new = best is None or last is None or last >= best
            account = _spent(account, "training" if is_new else "trained_again", now)
        case "waiting" | "stopping" | "restarting":
            account = _spent(account, account.doing, now)
    return replace(account, doing=doing)


def _spent(account: Account, category: Category, now: float) -> Account:
    at = _at(account, now)
    return replace(_added(account, category, at - account.since), since=at)


def _added(account: Account, category: Category, span: int) -> Account:
    spent = {**account.spent, category: account.spent.get(category, 0) + span}
    return replace(account, spent=spent)


def _stalled(account: Account, now: float) -> Account:
    if account.doing == "starting" and account.best is not None:
        usual = min(account.longest_start, _at(account, now) - account.since)
        account = replace(_added(account, "start", usual), since=account.since + usual)
    elif account.doing != "stepping":
        return account
    return _spent(account, "stalled", now)


def _trained(account: Account, position: Position, now: float, told: int) -> Account:
    """The time from the last step to the step at ``position``."""
    at = _at(account, now)
    before = account.last or position
    account = _from_start(account, before, position, at - account.since, told)
    account = _with_steps(account, before, position, at - account.since)
    return replace(account, since=at, generation_start=0)


def _from_start(
    account: Account, first: Position, second: Position, span: int, told: int
) -> Account:
    """The steps before the first one that was seen, which the start has been charged with.

    A job that tells every tenth step has made ten when it tells the first of them, but one that
    tells its first step and then every hundredth has made one. ``told`` came with the second.
    """
    count = second[1] - first[1] if first[0] == second[0] else 0
    steps = min(count * account.told // told, first[1] - account.resumed_step) - 1
    if steps <= 0:
        return account
    moved = min(span * steps // count, account.generation_start)
    account = _added(account, "start", -moved)
    return _with_steps(account, Position(first.epoch, first.step - steps), first, moved)


def _with_steps(account: Account, before: Position, position: Position, span: int) -> Account:
    """``span`` for the steps after ``before``, up to ``position``."""
    best = account.best_before
    if best is not None and position <= best:
        return _added(account, "trained_again", span)
    if best is None or best <= before:
        return _added(account, "training", span)
    if not before[0] == best[0] == position[0]:
        return _added(account, "training", span)  # how many steps an epoch has is not known
    again = span * (best[1] - before[1]) // (position[1] - before[1])
    return _added(_added(account, "trained_again", again), "training", span - again)


def _at(account: Account, now: float) -> int:
    return max(_nanoseconds(now), account.since)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


def _seconds(spent: Mapping[Category, int]) -> dict[str, float]:
    """Rounded to the millisecond in such a way that they still add up to the rounded sum."""
    seconds: dict[str, float] = {}
    total = told = 0
    for category in CATEGORIES:
        total += spent[category]
        milliseconds = round(total / 1e6) - told
        told += milliseconds
        seconds[category] = milliseconds / 1000
    return seconds
