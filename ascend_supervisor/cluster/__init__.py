"""Which ranks run where, and which entry is ours: the rank table, or variables in its place."""
