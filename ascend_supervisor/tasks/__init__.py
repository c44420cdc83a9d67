"""Waiting: for the first of several, in threads, on a clock; knows nothing of NPUs."""
