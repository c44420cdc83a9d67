"""``ascend-supervisorctl``: how a supervisor stands, its logs, and what a rank table says."""
