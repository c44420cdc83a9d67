"""Who is where, and who we are: the rank table, or what variables say in its place."""
