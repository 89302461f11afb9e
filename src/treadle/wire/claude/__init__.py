"""Claude Code's stream-json with its control records, as it is spoken on the standard streams of `claude`.

One JSON object per line, in both directions. The host says what to do (`user` records) and asks (`control_request`);
the agent tells what happens and asks in its turn, such as whether a tool may run. Both answer with `control_response`.
There is no published specification: this follows recordings of version 2.1.325 and skips what it does not know.

    records     the record types: the envelope is typed, what is inside stays as it came
    connection  one end of the conversation, what the records mean in our events, and the file in which it keeps a
                session, read as events
"""
