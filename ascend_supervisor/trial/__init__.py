"""A trial of this server with real jobs, some minutes long, whose report is one archive."""
