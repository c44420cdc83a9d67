"""Files and streams, including slow, planted or full ones; knows nothing of NPUs."""
