"""Where builds in a sandbox keep what they download."""

import os
from pathlib import Path

import pytest

from treadle.io.sandbox import bubblewrap
from treadle.session import Confinement

OFF = Confinement(network="off")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CARGO_HOME", raising=False)
    return tmp_path


def test_caches_are_in_the_temporary_directory_unless_a_person_put_them_elsewhere() -> None:
    env = bubblewrap.in_temp({"GOCACHE": "/big/go", "XDG_CACHE_HOME": "/tmp/.cache"}, "/own/temp", OFF)
    assert env["TMPDIR"] == "/own/temp" and env["GOCACHE"] == "/big/go"
    assert env["XDG_CACHE_HOME"] == "/own/temp/.cache", "what a sandbox around us said"
    assert env["PIP_CACHE_DIR"] == "/own/temp/.cache/pip"


def test_packages_are_read_from_the_home_directory_until_their_tool_may_download() -> None:
    env = bubblewrap.in_temp({}, "/own/temp", OFF)
    assert "GOMODCACHE" not in env and "CARGO_HOME" not in env
    env = bubblewrap.in_temp({}, "/own/temp", Confinement(network="off", hosts=("crates",)))
    assert env["CARGO_HOME"] == "/own/temp/.cargo" and "GOMODCACHE" not in env
    env = bubblewrap.in_temp({}, "/own/temp", Confinement(network="on"))
    assert env["CARGO_HOME"] == "/own/temp/.cargo" and env["GOMODCACHE"] == "/own/temp/.cache/go-mod"
    assert env["GOFLAGS"] == "-modcacherw"
    env = bubblewrap.in_temp({"GOFLAGS": "-v"}, "/own/temp", Confinement(network="off", hosts=("go",)))
    assert env["GOFLAGS"] == "-v -modcacherw" and "CARGO_HOME" not in env
    env = bubblewrap.in_temp({"GOMODCACHE": "/mine"}, "/own/temp", Confinement(network="on"))
    assert env["GOMODCACHE"] == "/mine" and "GOFLAGS" not in env


def test_gradle_reads_what_it_has_downloaded_before(home: Path) -> None:
    assert "GRADLE_RO_DEP_CACHE" not in bubblewrap.in_temp({}, "/own/temp", OFF)
    (home / ".gradle" / "caches" / "modules-2").mkdir(parents=True)
    assert bubblewrap.in_temp({}, "/own/temp", OFF)["GRADLE_RO_DEP_CACHE"] == str(home / ".gradle" / "caches")
    assert "GRADLE_RO_DEP_CACHE" not in bubblewrap.in_temp({"GRADLE_USER_HOME": "/mine"}, "/own/temp", OFF)


def test_cargo_finds_a_persons_settings(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temp = tmp_path_factory.mktemp("temp")
    bubblewrap.prepare(str(temp))
    assert os.listdir(temp) == []
    (home / ".cargo").mkdir()
    (home / ".cargo" / "config.toml").write_text("[net]\n")
    bubblewrap.prepare(str(temp))
    assert (temp / ".cargo" / "config.toml").read_text() == "[net]\n"
    (home / "config.toml").touch()
    monkeypatch.setenv("CARGO_HOME", str(home))
    other = tmp_path_factory.mktemp("temp")
    bubblewrap.prepare(str(other))
    assert os.readlink(other / ".cargo" / "config.toml") == str(home / "config.toml")
