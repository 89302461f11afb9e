"""The paths that others hold, for a sandbox to keep."""

import os
from pathlib import Path

from treadle.coordination.claims import Claims
from treadle.coordination.guard import MOST, Guarded
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001/native", "haid:bob.box-0002"


def held(project: Path) -> dict[str, str]:
    found = Guarded(Planning(project=str(project)), ANN).holding()
    return {os.path.relpath(path, project): why for path, why in found.items()}


def test_what_exists_is_held_with_who_and_why_and_what_is_ones_own_is_not(project: Path, claims: Claims) -> None:
    claims.claim(BOB, ["later.txt", "docs/*.md"], "T-2")
    claims.claim(ANN, ["mine"], "T-3")
    (project / "docs").mkdir()
    for name in ("docs/a.md", "docs/b.txt", "mine"):
        (project / name).write_text("x")
    found = held(project)
    assert sorted(found) == ["docs/a.md", "src/a"]
    assert BOB in found["src/a"] and "T-1" in found["src/a"] and "until" in found["src/a"]


def test_where_no_one_claims_nothing_is_held(project: Path) -> None:
    assert held(project) == {} and not (project / ".git/heimdall").exists()


def test_the_whole_repository_is_held_without_git_and_the_records(project: Path, claims: Claims) -> None:
    claims.claim(BOB, ["**"], "T-2")
    assert sorted(held(project)) == ["src"]


def test_too_many_files_are_held_by_their_directory(project: Path, claims: Claims) -> None:
    (project / "many").mkdir()
    for number in range(MOST + 1):
        (project / f"many/{number}.txt").write_text("")
    claims.claim(BOB, ["many/*.txt"], "T-2")
    found = held(project)
    assert sorted(found) == ["many", "src/a"] and str(MOST + 1) in found["many"]


def test_a_link_leads_to_what_it_stands_for(project: Path, claims: Claims) -> None:
    (project / "link").symlink_to("src")
    claims.release(BOB)
    claims.claim(BOB, ["link/a"], "T-2")
    assert list(held(project)) == ["src/a"]


def test_what_lies_in_what_is_held_is_not_named_and_nothing_outside_is(
    project: Path, claims: Claims, tmp_path: Path
) -> None:
    claims.release(BOB)
    claims.claim("haid:carl.box-0003", ["docs/in/**"], "T-2", shared=True)
    claims.claim("haid:dora.box-0004", ["docs/*/deep/x.md", "**/config", "out/*"], "T-3", shared=True)
    for name in ("docs/in/deep", "docs/other/deep", ".planning"):
        (project / name).mkdir(parents=True, exist_ok=True)
    for name in ("docs/in/deep/x.md", "docs/other/deep/x.md", "config", ".planning/config"):
        (project / name).write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    (project / "out").symlink_to(tmp_path / "elsewhere")
    found = held(project)
    assert sorted(found) == ["config", "docs/in", "docs/other/deep/x.md"]
    assert "carl" in found["docs/in"] and "dora" in found["config"]
