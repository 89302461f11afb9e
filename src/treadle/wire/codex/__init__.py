"""Codex's app-server protocol, as `codex app-server` speaks it on its standard streams.

JSON-RPC 2.0 without the member `jsonrpc`, one message a line. The host opens threads and starts turns; the server tells
what happens as `items` and asks before commands and patches. The installed program writes its own schema with
`codex app-server generate-json-schema`; this follows version 0.166.0 and skips what it does not know.

    connection  one end of the conversation, and the methods that each end calls
    events      what items, usage and errors mean in our events
    history     the turns of an earlier thread, as events
    threads     its lists of threads and models
    items       threads, turns and items, written with every field of the schema
    outgoing    our events as notifications, for the door
    records     the lines of `codex exec --json`, read, for versions without an app-server
    exec_records  the same lines, written for any agent
"""
