"""A checkout of a user with an agent's confined commands in it."""

import subprocess
from pathlib import Path

from tests.io.sandbox.rooms import Done, sh
from treadle.errors import Denied
from treadle.io.paths import DISK
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Mode, Rules

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "a@agent",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "a@agent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}
WHO = ["-c", "user.name=u", "-c", "user.email=u@user", "-c", "protocol.file.allow=always"]


def git(cwd: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=cwd, check=check, capture_output=True, text=True)
    return done.stdout.strip()


def refs(top: Path) -> list[str]:
    """All refs of the user, without the one that keeps what a session began with from `git gc`."""
    return [line for line in git(top, "for-each-ref").splitlines() if "\trefs/treadle/base/" not in line]


def checkout(place: Path, *more: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q", "-b", "main", *more)
    (place / "file.txt").write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    return place


class Working:
    """An agent in a checkout: `run` is one command of it, with what happens before and after."""

    def __init__(
        self,
        top: Path,
        *add: Path,
        session: str = "s1",
        rules: Rules | None = None,
        confined: bool = True,
        asked: Confinement | None = None,
        env: dict[str, str] = ENV,
        seconds: float | None = None,
        mode: Mode | None = None,
    ) -> None:
        """`mode`: with one, the directory is a person's own, and what each command leaves passes the gate."""
        self.top = top
        self._mode = mode
        self._env = env
        asked = asked or Confinement(use="on" if confined else "off")
        self.confining = Confining(str(top), tuple(map(str, add)), asked, session=session, seconds=seconds)
        self.confining.obey(RuleSet(rules or Rules(), str(top), DISK), mode)
        self.said: list[str] = []

    async def run(self, command: str, cwd: Path | None = None) -> Done:
        await self.confining.ready(self.said.append)
        check = self.confining.watching(None)() if self._mode is not None else lambda: None
        done = await sh(self.confining.now(), command, cwd or self.top, env=self._env)
        try:
            check()
        except Denied as error:
            self.said.append(str(error))
        self.said += await self.confining.sealing.settle()
        return done

    async def turn(self, command: str) -> Done:
        done = await self.run(command)
        await self.confining.finish(self.said.append)
        return done

    async def ok(self, command: str) -> str:
        done = await self.run(command)
        assert done.code == 0, done.text
        return done.text.strip()
