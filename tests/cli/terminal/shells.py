"""The terminal commands as a person types them, with the installed program."""

import json
import subprocess
from pathlib import Path

from tests.installed import treadle
from tests.terminal.support import connected
from treadle.io.reading import read_if_there
from treadle.terminal.places import Place


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


def reporting(*states: str) -> str:
    """A program for `sh -c` that reports one state after another, each when a line is typed."""
    report = "printf '\\033]7501;state=%s:app=x\\007' "
    return report + f"'{states[0]}'; " + "".join(f"read line; {report}'{state}'; " for state in states[1:]) + "cat"
