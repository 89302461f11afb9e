"""A script that runs where an agent's programs run: what it gets, what of it comes out, and what it cannot reach."""

import os
from pathlib import Path

import pytest

from treadle.errors import LocalError, TimedOut
from treadle.sandboxed import repositories
from treadle.sandboxed.repositories import run_inside
from treadle.session import Confinement


@pytest.fixture
def walls(tmp_path: Path) -> Confinement:
    return Confinement(use="on", write=(str(tmp_path),))


async def test_it_finds_what_it_is_given_and_what_it_leaves_comes_out(walls: Confinement, tmp_path: Path) -> None:
    script = 'tr a-z A-Z < /run/treadle/in/word > /run/treadle/out/loud; printf "$EXTRA" > /run/treadle/out/extra'
    found = await run_inside(walls, str(tmp_path), script, {"word": b"weave"}, {"EXTRA": "more"})
    assert found == {"loud": b"WEAVE", "extra": b"more"}


async def test_links_and_directories_do_not_come_out(walls: Confinement, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the user")
    script = f"cd /run/treadle/out; ln -s {tmp_path}/secret link; mkdir deep; mkfifo pipe; echo kept > file"
    assert await run_inside(walls, str(tmp_path), script, {}) == {"file": b"kept\n"}


async def test_it_has_no_key_of_ours_and_cannot_change_what_it_was_given(
    walls: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "s3cret")
    script = "env > /run/treadle/out/env; echo evil > /run/treadle/in/word || touch /run/treadle/out/refused"
    found = await run_inside(walls, str(tmp_path), script, {"word": b"x"})
    assert b"s3cret" not in found["env"] and "refused" in found


async def test_one_that_fails_says_what_it_said_last(walls: Confinement, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"git says: first\nno such branch"):
        await run_inside(walls, str(tmp_path), "echo first; echo no such branch >&2; exit 3", {})
    with pytest.raises(LocalError, match="exit code 7"):
        await run_inside(walls, str(tmp_path), "exit 7", {})


async def test_one_that_never_ends_is_given_up(
    walls: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "INSIDE_SECONDS", 0.3)
    with pytest.raises(TimedOut, match=r"within 0\.3 s"):
        await run_inside(walls, str(tmp_path), "exec sleep 600", {})


async def test_more_than_fits_is_refused_and_not_cut(
    walls: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "LARGEST", 1 << 20)
    whole = await run_inside(walls, str(tmp_path), "head -c 1048576 /dev/zero > /run/treadle/out/x", {})
    assert len(whole["x"]) == 1 << 20
    with pytest.raises(LocalError, match="larger than 1 MiB"):
        await run_inside(walls, str(tmp_path), "head -c 1048577 /dev/zero > /run/treadle/out/x", {})
    assert os.listdir(tmp_path) == []
