"""What commands in a sandbox have around them: networks that they share, and directories of the session."""

import os
from pathlib import Path

import pytest

from tests.io.process.test_view import overlays
from tests.io.sandbox import neighbours
from tests.io.sandbox.rooms import HAS_BUBBLEWRAP
from tests.safety import as_nobody
from treadle.io.sandbox import landlock
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


def test_under_landlock_caches_and_settings_are_in_directories_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".npmrc").touch()
    walls = Confinement(network="off", temp="/own/temp", home=str(tmp_path))
    env = landlock.environment({"GOCACHE": "/big/go", "GIT_CONFIG_GLOBAL": "/mine"}, walls)
    assert env["TMPDIR"] == "/own/temp" and env["GOCACHE"] == "/big/go"
    assert env["PIP_CACHE_DIR"] == "/own/temp/.cache/pip" and "CARGO_HOME" not in env
    assert env["npm_config_userconfig"] == str(tmp_path / "home" / ".npmrc") and env["GIT_CONFIG_GLOBAL"] == "/mine"
    assert landlock.environment({}, Confinement(temp="/t", network="on"))["CARGO_HOME"] == "/t/.cargo"
