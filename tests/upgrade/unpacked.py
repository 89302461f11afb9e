"""An archive of this directory on this machine: a home and a project, and the present commands on them."""

import tarfile
import time
from pathlib import Path

from tests.installed import TREADLE
from tests.upgrade.earlier import environment, ran
from tests.upgrade.make import HERE, NAMED

HASHED = ("receipts", "jetstream", "objects")
"""Directories of which every byte is signed, summed or hashed."""


class Unpacked:
    def __init__(self, area: str, place: Path) -> None:
        with tarfile.open(HERE / f"{area}.tar.xz") as archive:
            archive.extractall(place, filter=lambda entry, _: entry)
        self.place, self.home, self.project = place, place / "home", place / "project"
        self.state = self.home / "treadle"
        self.env = environment(Path(TREADLE).parent, self.home)
        self._say_where()

    def _say_where(self) -> None:
        """Have texts name this directory, as they named the one that they were written in."""
        before, now = (self.place / NAMED).read_bytes(), str(self.place).encode()
        for path in self.place.rglob("*"):
            if path.is_file() and not path.is_symlink() and not {*HASHED} & {*path.relative_to(self.place).parts}:
                if before in (data := path.read_bytes()) and b"\0" not in data:
                    path.write_bytes(data.replace(before, now))

    def still_hold(self) -> None:
        """Have claims last a year from now, as they did from when they were made."""
        year = time.gmtime().tm_year + 1
        for path in self.project.glob(".git/heimdall/ledger/claims/*.json"):
            path.write_text(path.read_text().replace('"expires_at": "2027', f'"expires_at": "{year}'))

    def typed(self, line: str, code: int | None = 0) -> str:
        """A line typed in the project."""
        return ran("bash", "-ec", line, env=self.env, cwd=self.project, code=code)
