"""Watch a terminal from plain Python: print its output and exit with its code.

    python terminal_client.py SOCKET

Needs nothing but the standard library; the protocol is in docs/reference/terminal-protocol.md.
"""

import socket
import struct
import sys


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            sys.exit("the supervisor closed the connection")
        data += part
    return data


with socket.socket(socket.AF_UNIX) as supervisor:
    supervisor.connect(sys.argv[1])
    if receive(supervisor, 1) != b"\0":
        sys.exit("only mode 0x00 is known")
    supervisor.sendall(struct.pack(">BI", 0x02, 0))  # SUBSCRIBE
    while True:
        kind, length = struct.unpack(">BI", receive(supervisor, 5))
        payload = receive(supervisor, length)
        if kind == 0x81:  # OUTPUT
            sys.stdout.buffer.write(payload)
            sys.stdout.buffer.flush()
        elif kind == 0x83:  # EXIT
            sys.exit(struct.unpack(">i", payload)[0])
