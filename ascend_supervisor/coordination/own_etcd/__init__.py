"""The etcd of ``--peers first``, which the supervisor of the first server starts and ends."""
