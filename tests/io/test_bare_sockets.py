"""Connections without the module `socket`, to one who has it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.io import bare_sockets


def test_data_and_descriptors_arrive_at_an_ordinary_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, (tmp_path / "file").open("w") as file:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        ours = bare_sockets.connect(str(tmp_path / "s"), 50)
        theirs, _ = listener.accept()
        with theirs:
            assert bare_sockets.send_fds(ours, b"hello", [file.fileno()]) == 5
            data, (fd,), _, _ = socket.recv_fds(theirs, 100, 4)
            assert data == b"hello" and os.path.sameopenfile(fd, file.fileno())
            os.close(fd)
            theirs.sendall(b"to you")
            assert ours.recv(100) == b"to you"
        ours.close()


def test_no_one_there_is_an_error_and_silence_has_an_end(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bare_sockets.connect(str(tmp_path / "nothing"), 1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        ours = bare_sockets.connect(str(tmp_path / "s"), 0.05)
        with pytest.raises(TimeoutError):
            ours.recv(1)
        ours.close()


def test_who_asks_the_warm_parent_does_not_load_the_module_socket() -> None:
    look = "import sys, treadle.cli.warm, treadle.io.process.warm; print('socket' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
