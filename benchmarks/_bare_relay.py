"""The least that a terminal in Python can be: a supervisor and a client that pass bytes on, and do nothing else. What
it takes is the lower bound for ours.

    python -I -S _bare_relay.py SOCKET COMMAND...      start it, and be its client
"""

import os
import select
import socket
import sys
import tty


def relay(ways: dict[int, int]) -> None:
    """Pass on what can be read at each key to its value, until one of them is closed."""
    poller = select.poll()
    for fd in ways:
        poller.register(fd, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            try:
                data = os.read(fd, 65536)
            except OSError:
                return
            if not data:
                return
            os.write(ways[fd], data)


def supervise(listener: socket.socket, command: list[str]) -> None:
    pid, master = os.forkpty()
    if not pid:
        os.execvp(command[0], command)
    client, _ = listener.accept()
    relay({client.fileno(): master, master: client.fileno()})


def main(path: str, *command: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        if not os.fork():
            os.setsid()
            supervise(listener, list(command))
            os._exit(0)
        client.connect(path)
        tty.setraw(0)
        relay({0: client.fileno(), client.fileno(): 1})


if __name__ == "__main__":
    main(*sys.argv[1:])
