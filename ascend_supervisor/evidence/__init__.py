"""What the words of a failed rank say about its cause; pure."""
