"""Follows the cluster's own schedulers (--follow-cluster), by its rank table and reset file."""
