"""Processes: started, owned, signalled and swept away; knows nothing of NPUs."""
