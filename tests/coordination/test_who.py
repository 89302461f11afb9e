"""Who is here, what each works on, since when, and who waits for whom."""

import os
from pathlib import Path

import pytest

from treadle.coordination import identity
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.overview import lines, rows
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


def test_a_row_has_what_is_known_of_it_and_nothing_else(tmp_path: Path) -> None:
    claims = Claims(Planning(str(tmp_path), project=str(tmp_path)), str(tmp_path))
    session = IdentityBindings(claims.planning, ROOT, remote=True)
    here = session.haid("cursor")
    claim = claims.claim(BOB, ["src"], "T-1", shared=True)
    binding = claims.bindings.of(here)
    assert binding is not None
    mine, bobs = rows(claims)
    assert mine == {
        "haid": here,
        "here": True,
        "session": binding.key,
        "since": binding.fields["since"],
        "cwd": binding.fields.get("cwd", ""),
        "waited_for_by": [],
    }
    held = {"surface": "src", **claim.part("src")}
    assert bobs == {"haid": BOB, "here": None, "holds": [held], "expires_at": claim.expires_at, "waited_for_by": []}
    session.leave()
    assert [row["haid"] for row in rows(claims)] == [BOB], "a session that is gone and holds nothing is no one"


def test_what_a_person_reads_of_each() -> None:
    wait = {"surfaces": ["a", "b"], "task": "T", "since": "then", "holders": [BOB, ROOT]}
    part = {"surface": "src", "mode": "shared", "task": "T-1", "since": "then"}
    lease = {"surface": "x.py", "worktree": "/w", "expires_at": "later"}
    found = [
        {"haid": "one", "here": True, "since": "noon", "cwd": "/w", "holds": [part], "waited_for_by": [BOB, ROOT]},
        {"haid": "two", "here": True, "since": "noon", "cwd": "", "writes": [lease], "waited_for_by": []},
        {"haid": "three", "here": False, "not_connected_since": "night", "waits": wait, "waited_for_by": []},
        {"haid": "four", "here": None, "waited_for_by": []},
    ]
    assert lines(found) == [
        "one  here since noon in /w",
        "  holds src (shared, task T-1, since then)",
        f"  waited for by {BOB}, {ROOT}",
        "two  here since noon",
        "  writes x.py in /w (lease until later)",
        "three  not connected since night",
        f"  waits for a b since then: {BOB}, {ROOT}",
        "four  no session known",
    ]


def test_who_writes_what_is_listed_under_the_one_who_writes(tmp_path: Path) -> None:
    claims = Claims(Planning(str(tmp_path / ".planning"), project=str(tmp_path)), str(tmp_path))
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert claims.leases.take(BOB, {BOB}, paths, identity.key_of(os.getpid())) == []
    (row,) = rows(claims)
    written = sorted((lease["surface"], lease["worktree"]) for lease in row["writes"])
    assert row["haid"] == BOB and written == [("a.txt", str(tmp_path)), ("b.txt", str(tmp_path))]
