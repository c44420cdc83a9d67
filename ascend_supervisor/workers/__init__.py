"""The worker group in one generation: made ready, run, ended, and its failure told."""
