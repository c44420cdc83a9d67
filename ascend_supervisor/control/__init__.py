"""The control socket: how operators ask a running supervisor, and what it answers."""
