"""Programs of their own that run beside us; they import nothing of ours and nobody imports them."""
