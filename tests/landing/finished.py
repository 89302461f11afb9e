"""Orders that have ended, for tests of what becomes of their work."""

import tempfile
import time
from pathlib import Path

import pytest

from tests.fleet.repositories import git
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.fleet.run.trees import RESULT
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


class Finished:
    """Finished orders of which only the results exist: a commit in a bundle, as a runner leaves them."""

    def __init__(self, bus: Bus, repository: Path, tmp_path: Path) -> None:
        self.bus, self.repository = bus, repository
        self.clone = tmp_path / "clone"
        git(tmp_path, "clone", "-q", str(repository), str(self.clone))
        self.base = git(repository, "rev-parse", "HEAD")

    async def order(self, name: str, files: dict[str, str | None], **fields: object) -> str:
        git(self.clone, "checkout", "-q", "--detach", self.base)
        for path, text in files.items():
            place = self.clone / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        git(self.clone, "add", "-A")
        self.commit(name)
        commit = git(self.clone, "rev-parse", "HEAD")
        git(self.clone, "update-ref", RESULT, commit)
        bundle = self.clone.parent / f"{name}.bundle"
        git(self.clone, "bundle", "create", "-q", str(bundle), RESULT, f"^{self.base}")
        await streams.put(self.bus, f"bundle.{name}.1", bundle.read_bytes())
        result = {"commit": commit, "base": self.base, "bundle": f"bundle.{name}.1"}
        spec = Spec(id=name, task=name, root=str(self.repository), base=self.base, **fields)  # type: ignore[arg-type]
        made = Order(id=name, state="done", changed=time.time(), title=name, result=result)
        await self.bus.put(f"spec.{name}", encode(spec), expect=0)
        await self.bus.put(f"order.{name}", encode(made), expect=0)
        return name

    def commit(self, name: str) -> None:
        git(self.clone, "commit", "-qm", name)


@pytest.fixture
def finished(bus: Bus, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    return Finished(bus, repository, tmp_path)


def clean(repository: Path) -> bool:
    return git(repository, "status", "--porcelain") == "" and git(repository, "fsck", "--no-dangling") == ""
