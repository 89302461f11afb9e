"""Codex's app-server protocol, as `codex app-server` speaks it on its standard streams.

JSON-RPC 2.0 without the member `jsonrpc`, one message a line. The host opens threads and starts turns; the server tells
what happens as `items` and asks before commands and patches. The installed program writes its own schema with
`codex app-server generate-json-schema`; this follows version 0.166.0 and skips what it does not know.

    connection  one end of the conversation, and the methods that each end calls
    translation what items, usage and errors mean in our events, with earlier turns and lists of threads and models;
                our events as notifications, with every field of the schema, for the door, and as the lines of
                `codex exec --json`, for any agent
"""
