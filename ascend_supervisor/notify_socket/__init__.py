"""The notify socket: what ranks say of themselves, in the protocol of sd_notify(3)."""
