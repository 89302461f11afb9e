"""A project with a fault, in a repository."""

from pathlib import Path

import pytest

from tests.conftest import need
from tests.verification.test_cheats import BASE, UNITTEST
from tests.workspace.repositories import make

SET = {
    **BASE,
    ".gitignore": "__pycache__/\n",
    ".treadle/config.toml": f'[verify]\ncheck = "{UNITTEST}"\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    need("bwrap")
    place = tmp_path / "project"
    repository = make(place, commit=False)
    for path, text in SET.items():
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_text(text)
    repository.git("add", "-A")
    repository.git("commit", "-qm", "a program")
    return place
