"""Whether this server is fit for its job: what was found, what was expected, what to do.

A subject is a file with a function from a ThisServer to its Results; ``checks`` lists them all.
"""
