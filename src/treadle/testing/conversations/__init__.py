"""Sample conversations, one module per wire and named like it. The contract test of the wires uses them.

`SAMPLES` are legal conversations, each a list of (role, message) from the first message on. `CROSSINGS` are for
messages that may cross on the way: tuples of a conversation so far, then one more (role, message) from each end.
"""
