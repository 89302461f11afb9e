"""The terminal protocol: a program in a pty, its supervisor on a Unix socket, and any number of clients (seed 001).

The supervisor greets with one unframed mode byte, 0x00; after it, both ways, everything is a frame: type, length in
four bytes, payload. A client writes input, asks for the status, resizes and kills; once it has subscribed, output
streams to it until the exit frame. Types up to 0x05 and 0x83 are the specification's; the others are additions, which a
supervisor uses only towards a client that sent one first.

    frames      the messages and their bytes
    connection  what may be said when

Light throughout: the supervisor and the small commands import it. The reference is docs/reference/terminal-protocol.md.
"""
