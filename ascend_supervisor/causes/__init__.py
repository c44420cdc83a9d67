"""What failures look like, what causes them, and what to do: a table, and the scan for its rows."""
