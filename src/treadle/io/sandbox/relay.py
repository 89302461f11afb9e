"""Inside a sandbox without a network: offers the proxy's socket as a local port, and runs the command.

Where that port is taken, as in a network that commands share, it is another one, also in the command's environment.
A program of its own, `python -I -S relay.py SOCKET PORT COMMAND...`; it imports none of our modules.
"""

import os
import socket
import sys
import threading


def main(path: str, port: int, argv: list[str]) -> int:
    usual = f"http://127.0.0.1:{port}"
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError:
        listener = socket.create_server(("127.0.0.1", 0))
    offered = f"http://127.0.0.1:{listener.getsockname()[1]}"
    child = os.fork()
    if child == 0:
        os.environ.update({name: offered for name, value in os.environ.items() if value == usual})
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # only the command holds them, so that closing one is noticed
        os.dup2(null, stream)
    threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def serve(listener: socket.socket, path: str) -> None:
    while True:
        here, _ = listener.accept()
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
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
