"""The engine of a fleet: the NATS server, its streams, roles, and one connection to them (`bus`).

What a stream means for orders does not belong here, only how it is stored, read and permitted.
"""
