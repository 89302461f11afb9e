"""Fetching an agent: as a package at one version, without running anything of it. npm and pip are played."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.drivers.registry import ListedAgent, install
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


@pytest.mark.parametrize(
    ("about", "program", "made", "found"),
    [
        ({"bin": "cli.js"}, "", "odd", "odd"),
        ({"bin": {"odd": "x", "odd-acp": "y"}}, "", "odd", "odd"),
        ({"bin": {"only": "x"}}, "", "only", "only"),
        ({"bin": {"odd": "x", "odd-acp": "y"}}, "odd-acp", "odd-acp", "odd-acp"),
        ({"bin": {"odd": "x"}}, "", "other", None),
        ({}, "", "odd", None),
        ([], "", "odd", None),
    ],
)
def test_its_program_is_the_one_that_is_wanted_else_that_of_its_name_else_the_first(
    npm: Path, about: Any, program: str, made: str, found: str | None
) -> None:
    text = PLAYED_NPM.format(log=npm, about=json.dumps(about)).replace(".bin/odd-acp", f".bin/{made}")
    (npm.parent / "bin" / "npm").write_text(text)
    agent = listed(program=program)
    if found is None:
        with pytest.raises(LocalError, match="@a/odd 1.2.3 has no program to run"):
            install(agent)
    else:
        done = install(agent)
        assert done.command == os.path.join(done.place, "node_modules", ".bin", found)


def test_what_is_refused_or_fails_says_what_to_do(npm: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as download:
        install(ListedAgent(name="odd", title="Odd", version="1", source="download"))
    assert "agents.odd.speaks" in (download.value.hint or "")
    with pytest.raises(LocalError) as failed:
        install(listed("broken"))
    assert failed.value.retryable
    for version in ("-1", "1 2"):
        with pytest.raises(ConfigError, match="no name and version"):
            install(listed(version=version))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(NotFound) as missing:
        install(listed())
    assert missing.value.hint == "install Node.js with npm"


def test_a_package_for_no_python_that_is_here_says_the_first_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bins = tmp_path / "bin"
    bins.mkdir()
    for name, why in (("python", "first"), (f"python3.{sys.version_info.minor + 1}", "second")):
        (bins / name).write_text(f"#!/bin/sh\necho '{why} reason' >&2\nexit 1\n")
        (bins / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bins))
    monkeypatch.setattr(sys, "executable", str(bins / "python"))
    agent = ListedAgent(name="odd", title="Odd", version="1.2.3", source="pypi", package="odd[acp]")
    with pytest.raises(LocalError, match="first reason") as failed:
        install(agent)
    assert "newer Python" in (failed.value.hint or "")
    (bins / "python").write_text(
        PLAYED_PYTHON.format(log=tmp_path / "log")
        .replace("mkdir", "/bin/mkdir")
        .replace("chmod", "/bin/chmod")
        .replace("touch", "/usr/bin/touch")
    )
    with pytest.raises(LocalError, match="has no program 'odd'"):
        install(agent)
