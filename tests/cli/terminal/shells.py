"""The terminal commands as a person types them, with the installed program."""

import json
import secrets
import subprocess
from pathlib import Path

import pytest

from tests.installed import TREADLE, treadle
from tests.terminal.support import WAIT, Stage, connected, until
from treadle.cli.terminal import main
from treadle.io.files import read_if_there
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.terminal.viewers.screen import snapshot


class Shell:
    def __init__(self, home: Path, cwd: Path) -> None:
        self.directory = home / "treadle" / "terminals"
        self.cwd = cwd

    def __call__(self, *arguments: str, code: int | None = 0, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return treadle(*arguments, input=stdin, cwd=self.cwd)

    def place(self, name: str) -> Place:
        return Place(str(self.directory), name)

    def written(self, name: str) -> str:
        """All that its program has written, without a command: for those who ask again and again."""
        return (read_if_there(self.place(name).out) or b"").decode(errors="replace")

    def explained(self, name: str) -> str:
        with connected(self.place(name)) as client:
            return json.dumps(client.explain())


class Here:
    """The same commands in this process, on the terminals of a stage: far quicker than a program for each."""

    def __init__(self, stage: Stage, captured: pytest.CaptureFixture[str]) -> None:
        self.stage = stage
        self.directory = stage.directory
        self._captured = captured

    def run(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """The exit code, what was printed, and what was said beside it."""
        self._captured.readouterr()
        code = main(name, ["--socket-dir", str(self.directory), *arguments])
        return (code, *self._captured.readouterr())

    def __call__(self, name: str, *arguments: str, code: int = 0) -> str:
        """What was printed; nothing was said beside it."""
        found, out, err = self.run(name, *arguments)
        assert (found, err) == (code, "")
        return out

    def place(self, name: str) -> Place:
        return Place(str(self.directory), name)

    def ended(self, name: str, **record: object) -> Place:
        """A terminal that has ended, with this exit record."""
        place = self.place(name)
        Path(place.exit).write_text(json.dumps({"format": 1, "id": name, "code": 0, **record}))
        return place


class Person:
    """Someone at a terminal in which one of the commands runs: another terminal of a stage."""

    def __init__(self, here: Here, *arguments: str, **settings: object) -> None:
        command = (TREADLE, *arguments, "--socket-dir", str(here.directory))
        self._stage = Stage(here.directory / f"outer{secrets.token_hex(3)}")
        self._stage.directory.mkdir(mode=0o700)
        self.place = self._stage.start(*command, **settings)
        self.client = Client(self.place.sock, timeout=WAIT)

    def sees(self, text: str) -> str:
        return str(until(lambda: text in (shown := "\n".join(snapshot(self.place)["lines"])) and shown))

    def types(self, keys: bytes) -> None:
        self.client.input(keys)

    def leaves(self) -> int:
        """The exit code, once the command has ended."""
        for _ in self.client.output(WAIT):
            pass
        assert self.client.exit_code is not None
        return self.client.exit_code

    def close(self) -> None:
        self.client.close()
        self._stage.close()


def reporting(*states: str) -> str:
    """A program for `sh -c` that reports one state after another, each when a line is typed."""
    report = "printf '\\033]7501;state=%s:app=x\\007' "
    return report + f"'{states[0]}'; " + "".join(f"read line; {report}'{state}'; " for state in states[1:]) + "cat"
