"""The stacks of all ranks: taken, written to files, and told in one sentence."""
