"""Inside a sandbox without a network: offers sockets of ours, such as the proxy's, as local ports, and runs a command.

Where a port is taken, as in a network that commands share, it is another one, also in the command's words and
environment. A program of its own, `python -I -S relay.py HOST:PORT=SOCKET,... COMMAND...`; it imports nothing
of ours.
"""

import os
import socket
import sys
import threading


def main(ports: str, argv: list[str]) -> int:
    offered, moved = [], []
    for address, _, path in (one.partition("=") for one in ports.split(",")):
        host, _, port = address.partition(":")
        try:
            listener = socket.create_server((host, int(port)))
        except OSError:
            listener = socket.create_server((host, 0))
            moved.append((f"//{address}", f"//{host}:{listener.getsockname()[1]}"))
        offered.append((listener, path))
    child = os.fork()
    if child == 0:
        for before, now in moved:
            argv = [word.replace(before, now) for word in argv]
            os.environ.update({name: value.replace(before, now) for name, value in os.environ.items()})
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # only the command holds them, so that closing one is noticed
        os.dup2(null, stream)
    for listener, path in offered:
        threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def serve(listener: socket.socket, path: str) -> None:
    while True:
        here, _ = listener.accept()
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a stream's small pieces wait for each other
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
        except OSError:
            here.close()
            there.close()
            continue
        for one, other in ((here, there), (there, here)):
            threading.Thread(target=pump, args=(one, other), daemon=True).start()


def pump(reader: socket.socket, writer: socket.socket) -> None:
    try:
        while data := reader.recv(64 * 1024):
            writer.sendall(data)
        writer.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (reader, writer):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
