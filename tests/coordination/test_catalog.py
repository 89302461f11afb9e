"""Many claims, found through an index that is made from their files."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.coordination import claims as catalog
from treadle.coordination.claim import MOST_SHOWN
from treadle.coordination.claims import Catalog, CatalogEntry, Claims, Collision
from treadle.coordination.planning import Planning
from treadle.coordination.surfaces import Surface

HAIDS = [f"haid:p{number}.box-{number:04x}" for number in range(30)]


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    """Thirty claims, with an index as for thousands."""
    claims = Claims(Planning(str(tmp_path), project=str(tmp_path)), str(tmp_path))
    claims.few = 3
    for number, haid in enumerate(HAIDS):
        claims.claim(haid, [f"pkg{number % 5}/mod{number}/**", f"docs/{number}.md"], f"T-{number}")
    return claims


def holders(claims: Claims, *texts: str) -> list[str]:
    return sorted(overlap.claim.haid for overlap in claims.check("haid:x.box-ffff", texts))


def test_it_says_what_reading_every_claim_says(claims: Claims, tmp_path: Path) -> None:
    plain = Claims(claims.planning, str(tmp_path))
    assert (tmp_path / "claims.index").exists()
    for texts in (["pkg1/mod1/x"], ["pkg2"], ["**/*.md"], ["nowhere/x"], ["docs/7.md", "pkg0/**"], ["."]):
        assert holders(claims, *texts) == holders(plain, *texts)
    for as_json in (False, True):
        assert claims.listed(as_json=as_json) == plain.listed(as_json=as_json)
    assert len(list(claims.near([Surface("pkg1/mod1/x")]))) == 1


def test_what_others_do_to_the_files_is_noticed(claims: Claims) -> None:
    claims.catalog.trusted = 0.0
    place = Path(claims.directory)
    first, second, third = sorted(place.glob("*.json"))[:3]
    first.unlink()
    fields = json.loads(second.read_text())
    second.write_text(json.dumps({**fields, "claimed_surfaces": ["moved"]}))
    third.write_text("{")
    assert len(claims.listed()) == len(HAIDS) - 2
    assert holders(claims, "moved") == [fields["haid"]]
    assert claims.unseen() == [f"{third} is not a claim that can be read"]
    os.unlink(claims.planning.live_path("ledger", "fence"))
    assert claims.claim("haid:x.box-ffff", ["new"], "T").fence == len(HAIDS) + 1


def test_a_file_that_comes_or_is_replaced_or_goes_changes_the_date_and_is_noticed_at_once(claims: Claims) -> None:
    """The directory was last changed an hour ago, so that its timestamp shows the next change on any clock."""
    place = Path(claims.directory)
    first, second = sorted(place.glob("*.json"))[:2]
    fields = json.loads(second.read_text())
    beside = Path(claims.planning.live_path("beside"))

    def replace(path: Path, surface: str) -> None:
        beside.write_text(json.dumps({**fields, "haid": f"haid:{path.stem}", "claimed_surfaces": [surface]}))
        beside.rename(path)

    def noticed(change: Callable[[], object], surface: str, count: int) -> None:
        os.utime(place, (0, claims.planning.clock() - 3600))
        assert len(holders(claims, surface)) == 1 - count
        change()
        assert len(holders(claims, surface)) == count

    noticed(lambda: replace(second, "moved"), "moved", 1)
    noticed(lambda: replace(place / "haid_y.json", "other"), "other", 1)
    noticed(first.unlink, "docs/0.md", 0)


def test_a_claim_that_ends_is_removed_and_one_whose_time_is_over_is_not_listed(claims: Claims) -> None:
    now = claims.planning.clock()
    claims.planning.clock = lambda: now + 91 * 60
    assert claims.listed() == []
    claims.claim(HAIDS[0], ["docs"], "T")
    assert [path.name for path in Path(claims.directory).iterdir()] == ["haid_p0.box-0000.json"]


@pytest.mark.parametrize("damage", ["garbage", "another format", "a directory"])
def test_an_index_that_cannot_be_used_is_made_anew_or_done_without(claims: Claims, damage: str) -> None:
    path = Path(claims.planning.live_path("claims.index"))
    if damage == "another format":
        with sqlite3.connect(path) as connection:
            connection.execute("pragma user_version = 99")
        connection.close()
    else:
        path.unlink()
        path.mkdir() if damage == "a directory" else path.write_bytes(b"garbage" * 1000)
    assert holders(claims, "docs/7.md") == [HAIDS[7]] and len(claims.listed()) == len(HAIDS)


def test_an_index_without_claims_says_that_there_are_none(claims: Claims) -> None:
    shutil.rmtree(claims.directory)
    assert claims.listed() == [] and claims.unseen() == [] and holders(claims, "docs/7.md") == []
    assert claims.claim(HAIDS[0], ["new"], "T").fence == len(HAIDS) + 1
    assert len(claims.listed()) == 1


NAMES = st.sampled_from(["a", "b", "ab", "a-", "a0", "*", "**", "?"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(held=st.lists(PATHS, min_size=1, max_size=8), asked=PATHS)
def test_nothing_that_overlaps_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, held: list[str], asked: str
) -> None:
    directory = tmp_path_factory.mktemp("claims")
    for number in range(len(held)):
        (directory / f"{number}.json").write_text("{}")

    def read(path: str) -> CatalogEntry:
        number = int(Path(path).stem)
        return CatalogEntry(f"haid:{number}", 0.0, 1.0, number, [held[number]], ("", ""))

    catalog = Catalog(str(directory / "index"), str(directory), read)
    near = catalog.ask(lambda rows: rows.near([asked]), few=0)
    wanted = Surface(asked)
    assert {f"{n}.json" for n, text in enumerate(held) if wanted.overlaps(Surface(text))} <= set(near)


@settings(max_examples=60, deadline=None)
@given(held=st.lists(PATHS, min_size=1, max_size=8), asked=PATHS, files=st.sets(st.sampled_from(["a", "b/a", "ab/b"])))
def test_no_claim_is_passed_over_because_of_its_path_alone(
    tmp_path_factory: pytest.TempPathFactory, held: list[str], asked: str, files: set[str]
) -> None:
    top = tmp_path_factory.mktemp("top")
    for name in files:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).touch()
    free = Claims(Planning(str(top / ".planning"), project=str(top)), str(top))._free([Surface(asked, str(top))])
    plain = [text for text in held if "*" not in text and "?" not in text]
    overlapping = [text for text in plain if Surface(asked, str(top)).overlaps(Surface(text, str(top)))]
    assert not any(free(text) for text in overlapping)


def test_of_very_many_overlaps_the_first_are_named_and_it_says_so(tmp_path: Path) -> None:
    claims = Claims(Planning(str(tmp_path), project=str(tmp_path)), str(tmp_path))
    claims.claim("haid:p.box-0001", [f"docs/{number}.md" for number in range(MOST_SHOWN + 20)], "T")
    claims.claim("haid:p.box-0002", ["src"], "T")
    with pytest.raises(Collision, match="there may be more") as refused:
        claims.claim("haid:x.box-ffff", ["**/*.md"], "T")
    assert len(refused.value.overlaps) == MOST_SHOWN


def test_what_others_hold_is_refused_without_waiting_for_the_lock(claims: Claims) -> None:
    other = Claims(claims.planning, claims.top)
    other.few = claims.few
    with claims.lock(), pytest.raises(Collision):
        other.claim("haid:x.box-ffff", ["**/1.md"], "T")


def test_a_file_that_was_just_changed_is_not_settled_whatever_time_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    path.touch()
    os.utime(path, (1, 1))
    assert catalog._settled(str(path), 7) == catalog._UNSETTLED
    assert catalog._settled(str(tmp_path / "gone"), 7) == catalog._UNSETTLED


class Few:
    """Three claims in files, and the index of them; `read` has the names of the files that were read for it."""

    def __init__(self, place: Path) -> None:
        self.place, self.read, self.index = place / "claims", [], place / "index"
        self.place.mkdir()
        self.entries: dict[str, CatalogEntry | None] = {
            "a.json": CatalogEntry("haid:a", 10.0, 20.0, 3, ["src/a"], ("text a", "json a")),
            "b.json": CatalogEntry("haid:b", 15.0, 30.0, 7, ["docs/**"], ("text b", "json b")),
            "c.json": None,
        }
        for name in self.entries:
            (self.place / name).write_text(name)
        self.catalog = Catalog(str(self.index), str(self.place), self.found)
        self.catalog.trusted = 0.0

    def found(self, path: str) -> CatalogEntry | None:
        self.read.append(Path(path).name)
        return self.entries[Path(path).name]

    def ask(self, question: Callable[[catalog.CatalogRows], Any], **more: Any) -> Any:
        return self.catalog.ask(question, **{"few": 2, **more})

    def reads(self) -> list[str]:
        """What is read for the next answer."""
        self.read.clear()
        self.ask(lambda rows: None)
        return self.read


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Few:
    monkeypatch.setattr(catalog, "SETTLED_SECONDS", 0.0)
    return Few(tmp_path)
