"""What commands in a sandbox have around them: networks that they share, and caches of builds."""

import os
from pathlib import Path

import pytest

from tests.io.process.test_view import overlays
from tests.io.sandbox import neighbours
from tests.io.sandbox.rooms import HAS_BUBBLEWRAP
from tests.safety import as_nobody
from treadle.io.sandbox import bubblewrap
from treadle.session import Confinement

divided = pytest.mark.skipif(not (HAS_BUBBLEWRAP and overlays()), reason="programs cannot share a network here")


def check(found: dict[str, list[str]], user: int) -> None:
    assert found["reached"] == ["one"]
    status = dict(line.split(":\t", 1) for line in found["said"] if ":\t" in line)
    assert found["said"][0] == str(user) and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert any("permission denied" in line or "superuser" in line for line in found["said"][-2:])


@divided
async def test_programs_with_the_same_private_tmp_reach_each_other_and_no_one_else_does(tmp_path: Path) -> None:
    check(await neighbours.tried(tmp_path), os.geteuid())


@pytest.mark.slow
@divided
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_it_too_and_no_more_rights_for_it() -> None:
    with as_nobody.room() as base:
        check(as_nobody.as_another(base, [neighbours.__file__, str(base)]), as_nobody.NO_ID)


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
