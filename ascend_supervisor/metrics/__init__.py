"""The job in figures for Prometheus (--metrics-file); nothing is imported where none is wanted."""
