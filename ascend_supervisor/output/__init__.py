"""The path of a chunk from a rank's pipe to its log and to our stdout."""
