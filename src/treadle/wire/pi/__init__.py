"""pi's RPC mode, as `pi --mode rpc` speaks it on its standard streams.

One JSON object per line, ended by LF only. The host sends commands, each with an id that the response repeats; the
agent tells what happens in events. An extension of the agent can ask the host: that is how our rules reach its tools.
The specification is `docs/rpc.md` of the program; this follows version 0.74.2 and skips what it does not know.

    connection  the messages, one end of the conversation, and what messages, usage and errors mean in our events
"""
