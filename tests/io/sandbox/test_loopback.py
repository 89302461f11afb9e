"""A network that the programs of one session share, as this user and as an ordinary one."""

import os
from pathlib import Path

import pytest

from tests.io.process.test_view import overlays
from tests.io.sandbox import neighbours
from tests.io.sandbox.rooms import HAS_BUBBLEWRAP
from tests.safety import as_nobody
from treadle.confinement import Confinement
from treadle.io.sandbox.bubblewrap import SharedNetwork, running, shared

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


def test_a_network_is_joined_by_those_with_the_same_tmp_while_one_of_them_runs() -> None:
    one, path = Confinement(network="off", temp="/tmp/one"), f"/proc/{os.getpid()}/ns/net"
    others = [
        Confinement(network="on", temp="/tmp/one"),
        Confinement(network="off"),
        Confinement(network="off", temp="/tmp/two"),
    ]
    for other in others[:2]:
        running(other, os.getpid())
    assert shared(one) is None and all(shared(other) is None for other in others)
    first, second = running(one, os.getpid()), running(one, os.getpid())
    assert shared(one) == SharedNetwork(path, os.readlink(path)) and all(shared(other) is None for other in others)
    first()
    assert shared(one) is not None
    second()
    second()
    assert shared(one) is None


def test_a_network_is_there_while_its_path_leads_to_it() -> None:
    path = f"/proc/{os.getpid()}/ns/net"
    assert SharedNetwork(path, os.readlink(path)).is_there()
    assert not SharedNetwork(path, "net:[1]").is_there() and not SharedNetwork("/proc/0/ns/net", "").is_there()
