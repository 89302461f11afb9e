"""Who is here, what each works on, since when, and who waits for whom."""

import os
from pathlib import Path

import pytest

from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.claims import Claims, Collision, lines, rows
from treadle.coordination.planning import Planning

ROOT, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


def test_sessions_that_are_here_holders_and_those_who_wait(tmp_path: Path) -> None:
    claims = Claims(Planning(str(tmp_path), project=str(tmp_path)), str(tmp_path))
    assert lines(rows(claims)) == ["(no one is here, and nothing is claimed)"]
    connected, gone = (
        IdentityBindings(claims.planning, ROOT, remote=True),
        IdentityBindings(claims.planning, ROOT, remote=True),
    )
    here, left = connected.haid("cursor"), gone.haid("copilot")
    claims.claim(here, ["src"], "T-1")
    claims.claim(left, ["docs"], "T-2")
    gone.leave()
    with pytest.raises(Collision):
        claims.claim(BOB, ["src/a"], "T-3")
    found = {row["haid"]: row for row in rows(claims)}
    assert found[here]["here"] is True and found[here]["waited_for_by"] == [BOB]
    assert found[left]["here"] is False and found[left]["not_connected_since"]
    assert found[BOB]["here"] is None and found[BOB]["waits"]["holders"] == [here]
    told = "\n".join(lines(list(found.values())))
    assert f"{here}  here since 20" in told and "holds src (exclusive, task T-1" in told
    assert f"{left}  not connected since 20" in told and "waits for src/a since" in told
    connected.leave()
    assert os.path.exists(claims.bindings.of(here).path)  # type: ignore[union-attr]
