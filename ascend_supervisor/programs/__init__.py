"""Separate programs that run beside us; they import nothing of ours and are not imported."""
