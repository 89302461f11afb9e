"""Typed messages between agents that share a repository, protocol 2.0.0 (seed 003).

Six types told apart by `type`, each with a sender and an id; they refer to symbols, capsules and reports by id and
never repeat what those say. One message is one JSON object; a receiver validates it, grants one retry after an invalid
one, and escalates after the second ("malformed, one retry, escalate").

    messages    the six types: the published schema and the check, both from one table
    connection  validate on receipt: what follows a valid line and an invalid one

Light: small commands import it. The reference is docs/reference/coordination-protocol.md.
"""
