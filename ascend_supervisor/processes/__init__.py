"""Processes: started, owned, signalled and swept away; knows no NPU."""
