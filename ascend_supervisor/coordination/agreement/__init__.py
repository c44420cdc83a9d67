"""What servers that meet in an etcd decide, each for itself, from what it has read; pure.

There is no leader. Each server reads the records of the job at one revision, remembers what
matters, and asks ``table.decide`` for its next act. A write succeeds only if what it was decided
on still holds, so two servers never decide the same thing twice.

Whoever drives it does this after every wake (a watch, a time, a change of the ranks, an answer):

1. ``decide(None, ...)``; an Exit is carried out before anything is read.
2. Read all keys at one revision, or of many servers what is near; ``remember`` it, with the time
   at which the request was sent.
3. ``decide(view, ...)``, and carry the act out. After StartRanks, Forget and a RecordChange that
   has succeeded, ``carried_out`` gives the memory; after a RecordChange that has succeeded its
   ``afterwards`` comes next. Except after WaitUntil, begin again.

Where many servers would read at once, what a watch tells of the epoch is enough to end ranks or to
start them (``hearing``).

It reads at least every TTL/2, and keeps the lease of ``alive`` every TTL/4: these answers go into
``remember``, too (``KeptAlive``), because more than TTL/2 without an answer is a gap.
"""
