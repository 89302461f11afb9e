"""What is published says the same everywhere, and what GitHub reads can be read."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from treadle import __version__

ROOT = Path(__file__).parent.parent


def test_the_version_is_the_newest_of_the_changes() -> None:
    found = re.search(r"(?m)^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())
    assert found is not None and found[1] == __version__


def test_the_release_tests_every_python_that_the_package_names_and_stores_no_token() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    assert jobs["publish"]["needs"] == "build" and jobs["build"]["needs"] == "test"
    assert jobs["publish"]["permissions"] == {"id-token": "write"} and "secrets." not in text


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_what_github_reads_is_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_target_that_a_workflow_uses_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"run: make (\w+)", (ROOT / ".github/workflows/release.yml").read_text()):
        assert re.search(rf"(?m)^{target}:", makefile)
