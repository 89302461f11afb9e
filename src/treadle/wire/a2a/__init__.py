"""The Agent2Agent protocol, version 1.0, in its JSON-RPC binding over HTTP.

A client reads the agent's card and sends it messages. The agent answers each with a task, which it works on, or with a
message; it reports changes of a task as server-sent events or when asked. Messages that share a
context are one conversation, and a task that needs something is `input-required` until the client sends more.

Each request is an HTTP request of its own, whose answer belongs to no other. HTTP says where a message begins and ends,
and requests may come in any order, so this folder has no `Connection`: `serve/agents` and `drivers/a2a/driver` read the
bodies.

    messages  what it speaks of, how that is written and read, the names of methods, and agents' cards

The specification is at https://a2a-protocol.org.
"""
