"""Coordination of agents that share one repository: identities, claims, messages, and what they tell each other.

All state is in files, most of them in git's common directory, so agents of any vendor, hooks and people share it
without a server. The protocol is `heimdall` (docs/reference/coordination-protocol.md); its commands are thin.

Words:
    HAID        an identity: which agent, of which person, on which machine, in which checkout
    binding     a file that ties an identity to an agent's process and session
    surface     what a claim covers: a path and all under it, a glob, or one symbol of a file
    claim       who may change a surface, for which task, until when; its fence is a number that only grows
    capsule, symbol, fact   what was done, what a name means, what was found out: passed on by reference, not repeated

Flow: an agent acts through a command, the MCP server (`mcp`), a tool hook (`calls`, then `guard`) or git (`hooks`).
`bindings` finds its identity, `claims` decides under one lock, and the audit trail (`planning`) records it. From inside
a sandbox the same request goes through `relay` to a process of ours outside.

Promises, and who keeps each:
    Of two overlapping claims one is refused, however close together they come.                 claims
    A claim that is not renewed expires; an old fence can be told from a new one.               claim, claims
    A session has one identity, by whichever way it acts.                                       bindings
    A write under another's claim is refused before it happens, or put back after it.           guard
    A commit or push under another's claim is refused; hooks that vanish are reported.          hooks, installed_hooks
    Entries in other programs' files can be removed without a trace.                            hosts
    A number in the ledger says where it comes from: measured, estimated, counted, declared.    ledger

`agents.py` (which hands its guards to sessions), `fleet`, `goals` and `cli` import it; it imports `sessions`,
`workspace`, `io`, `policy`, `wire` and what is below. Orders and machines are not known here.
"""
