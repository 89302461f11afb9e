"""Fetching an agent: as a package at one version, without running anything of it. npm and pip are played."""

import json
import os
import sys
from pathlib import Path

import pytest

from treadle.drivers.install import install
from treadle.drivers.registry import ListedAgent
from treadle.errors import ConfigError, LocalError, NotFound

PLAYED_NPM = """#!/bin/sh
echo "$@" >> {log}
place="$3"
case "$*" in *broken*) echo "no such package" >&2; exit 1;; esac
mkdir -p "$place/node_modules/.bin" "$place/node_modules/@a/odd"
printf '%s' '{about}' > "$place/node_modules/@a/odd/package.json"
touch "$place/node_modules/.bin/odd-acp"
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that does what npm would; the arguments of each call are in this file."""
    log, bins = tmp_path / "log", tmp_path / "bin"
    bins.mkdir()
    about = json.dumps({"bin": {"other": "x", "odd-acp": "y"}})
    (bins / "npm").write_text(PLAYED_NPM.format(log=log, about=about))
    (bins / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bins}{os.pathsep}{os.environ['PATH']}")
    return log


def listed(package: str = "@a/odd", version: str = "1.2.3", program: str = "odd-acp") -> ListedAgent:
    return ListedAgent(name="odd", title="Odd", version=version, source="npm", package=package, program=program)


def test_a_package_is_fetched_at_its_pin_and_none_of_its_scripts_runs(npm: Path) -> None:
    made = install(listed())
    assert made.command.endswith("/agents/odd/node_modules/.bin/odd-acp") and made.version == "1.2.3"
    (call,) = npm.read_text().splitlines()
    assert "--ignore-scripts" in call and call.endswith("@a/odd@1.2.3")


def test_what_cannot_be_fetched_says_what_npm_said(npm: Path) -> None:
    with pytest.raises(LocalError, match="broken@1.2.3 could not be fetched: no such package"):
        install(listed("broken"))


@pytest.mark.parametrize("package", ["--registry=x", "a b", "a;b", "", "$(x)"])
def test_a_name_that_is_none_is_not_given_to_npm(npm: Path, package: str) -> None:
    with pytest.raises(ConfigError, match="is no name and version"):
        install(listed(package))
    assert not npm.exists()


def test_a_download_is_refused(npm: Path) -> None:
    with pytest.raises(ConfigError, match="Odd is a download, not a package"):
        install(ListedAgent(name="odd", title="Odd", version="1", source="download"))


def test_without_npm_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="npm is needed to fetch @a/odd@1.2.3"):
        install(listed())


PLAYED_PYTHON = """#!/bin/sh
echo "$@" >> {log}
mkdir -p "$4/bin"
printf '#!/bin/sh\\necho pip "$@" >> {log}\\ntouch "%s/odd-acp"\\n' "$4/bin" > "$4/bin/python"
chmod +x "$4/bin/python"
"""


def test_a_package_for_a_newer_python_is_installed_with_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own has no such package; the next newer one has. Both are played."""
    log, bins = tmp_path / "log", tmp_path / "bin"
    bins.mkdir()
    newer = bins / f"python3.{sys.version_info.minor + 1}"
    newer.write_text(PLAYED_PYTHON.format(log=log))
    newer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bins}{os.pathsep}{os.environ['PATH']}")
    own = bins / "python"
    own.write_text("#!/bin/sh\necho 'Requires-Python >=3.99' >&2\nexit 1\n")
    own.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(own))
    made = install(
        ListedAgent(name="odd", title="Odd", version="1.2.3", source="pypi", package="odd", program="odd-acp")
    )
    assert made.command.endswith("/agents/odd/bin/odd-acp")
    venv, pip = log.read_text().splitlines()
    assert venv.startswith("-m venv --clear") and pip.endswith("--only-binary :all: odd==1.2.3")
