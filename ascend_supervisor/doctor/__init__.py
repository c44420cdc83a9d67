"""Whether this server is fit for its job: what was found, what was expected, what to do.

A check is a function from a ThisServer to its Results; ``checks`` lists them all.
"""
