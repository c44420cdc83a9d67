"""How far the job is, as its own output says, and what its time was spent on; pure."""
