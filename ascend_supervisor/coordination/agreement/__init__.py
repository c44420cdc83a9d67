"""What servers that meet in an etcd decide, each for itself, from what it has read; pure.

There is no leader. Each server reads the records of the job at one revision, remembers what
matters, and asks ``decision.decide`` for its next act. A write succeeds only if what it was decided
on still holds, so two servers never decide the same thing twice.
"""
