"""Standbys (--warm): processes that have imported what a rank imports, and wait to become one."""
