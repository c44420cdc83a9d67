"""The worker group in one generation: preparation, run, end, and its failure."""
