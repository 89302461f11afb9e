"""A network that the programs of one session share, as this user and as an ordinary one."""

import os
from pathlib import Path

import pytest

from tests.io.sandbox import neighbours
from tests.safety import as_nobody
from treadle.io.sandbox import methods

if not methods.available().divides:
    pytest.skip("programs cannot share a network here", allow_module_level=True)


def check(found: dict[str, list[str]], user: int) -> None:
    assert found["reached"] == ["one"]
    status = dict(line.split(":\t", 1) for line in found["said"] if ":\t" in line)
    assert found["said"][0] == str(user) and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert any("permission denied" in line or "superuser" in line for line in found["said"][-2:])


async def test_programs_with_the_same_private_tmp_reach_each_other_and_no_one_else_does(tmp_path: Path) -> None:
    check(await neighbours.tried(tmp_path), os.geteuid())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_it_too_and_no_more_rights_for_it() -> None:
    with as_nobody.room() as base:
        check(as_nobody.as_another(base, [neighbours.__file__, str(base)]), as_nobody.NO_ID)
