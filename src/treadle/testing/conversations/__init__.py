"""Sample conversations, one module per wire and named like it: what the contract of a wire is checked with.

`SAMPLES` are legal conversations, each a list of (role, message) from the first message on. `CROSSINGS`, where messages
may pass each other on the way, are tuples: a conversation so far, then one more (role, message) from each end.
"""
