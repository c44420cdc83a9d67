"""``ascend-supervisorctl``: a supervisor's status and logs, and the content of a rank table."""
