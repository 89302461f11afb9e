"""Everything that touches the machine: durable files, locks, process trees, streams, the sandbox. One way for each.

No rule of the product is here: the caller says what is done.
"""
