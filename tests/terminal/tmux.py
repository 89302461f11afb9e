"""People at terminals, played by tmux."""

import shlex
import subprocess
from pathlib import Path

from tests.conftest import need
from tests.installed import TREADLE
from tests.terminal.support import until
from treadle.terminal.places import Place


class Tmux:
    """A separate tmux server, with one window for each person."""

    def __init__(self, directory: Path) -> None:
        self.socket = str(directory / "tmux")
        self("-f", "/dev/null", "new-session", "-d", "-s", "home", "-x", "80", "-y", "24", "sh")

    def __call__(self, *arguments: str) -> str:
        command = [need("tmux"), "-S", self.socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=50).stdout

    def window(self, name: str, command: str) -> None:
        self("new-session", "-d", "-s", name, "-x", "80", "-y", "24", f"{command}; echo code:$?; exec cat")

    def type(self, name: str, *keys: str) -> None:
        self("send-keys", "-t", name, *keys)

    def screen(self, name: str) -> str:
        return self("capture-pane", "-p", "-t", name)

    def shows(self, name: str, text: str) -> str:
        try:
            return str(until(lambda: text in (screen := self.screen(name)) and screen))
        except AssertionError:
            raise AssertionError(f"waited in vain for {text!r} on {name}, which shows:\n{self.screen(name)}") from None


def attach(place: Place, *options: str) -> str:
    return shlex.join([TREADLE, "attach", place.id, "--socket-dir", place.directory, *options])
