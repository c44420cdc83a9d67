"""What the event logs of a job tell: over time, as a page, and in a terminal; pure."""
