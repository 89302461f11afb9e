"""Protocols as pure functions and state: one folder per protocol, bytes in, messages out, and back. No I/O.

Words:
    message     one unit of a protocol, as a typed value
    connection  one end of a conversation: `receive(bytes)` gives messages, `send(message)` gives bytes
    role        which end it is; the table of a protocol says what each role may say in which state
    framing     how bytes are cut into messages: lines, typed frames, or lengths in front
    events      in most folders, the module that converts messages to and from `treadle.events`

Flow: the holder of a stream feeds bytes to a `Connection` and acts on the messages that come out. A driver turns an
agent's messages into events; a door turns events into messages for its client. The same folder serves both ends.

Promises (the contract test applies them to every folder that has a `Connection`):
    Bytes may arrive in any pieces: fed one by one, they give the same messages.                common/framing
    Reading is tolerant (unknown fields and types are kept or skipped); writing is strict.      each folder's messages
    A message that may not be said now is an error; it changes only what the table says.        common/connection
    Input over the cap is an error value in its place in the order; memory stays bounded.       common/framing
    What a wire cannot carry is listed, not dropped silently.                                   common/losses

`common` has what all wires share. `fleet`, `goal` and `heimdall` are protocols and formats of our own; `a2a` and `goal`
have no `Connection`, and their `__init__.py` says why. Each folder names its specification and, where sections are
quoted, the section.

Any room from `io` up may import it. It imports `session`, `events` and `errors`. Sockets, files and clocks belong to
`io` and to the one who holds the connection; what a request does belongs to `doors`, `drivers` and `fleet`.
"""
