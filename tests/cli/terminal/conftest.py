from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Person, Shell
from tests.terminal.conftest import stage
from tests.terminal.support import Stage, alive

__all__ = ["stage"]


@pytest.fixture
def shell(state_home: Path, tmp_path: Path) -> Iterator[Shell]:
    found = Shell(state_home, tmp_path)
    yield found
    for path in found.directory.glob("*.pid"):
        if alive(found.place(path.stem).pids()[0]):
            found("kill", path.stem, "--grace", "0", code=None)  # it may end by itself meanwhile


@pytest.fixture
def here(stage: Stage, capfd: pytest.CaptureFixture[str]) -> Here:
    return Here(stage, capfd)


@pytest.fixture
def person(here: Here) -> Iterator[Callable[..., Person]]:
    """Starts a command as a person does at a terminal."""
    made: list[Person] = []

    def start(*arguments: str, **settings: object) -> Person:
        made.append(Person(here, *arguments, **settings))
        return made[-1]

    yield start
    for each in made:
        each.close()
