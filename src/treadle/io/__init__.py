"""Everything that touches the machine: durable files, locks, process trees, streams, the sandbox. One way for each.

No rule of the product is here: what is done is said by the caller.
"""
