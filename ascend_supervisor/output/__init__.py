"""A chunk's way from a rank's pipe to its log and to our stdout."""
