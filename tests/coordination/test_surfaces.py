"""Surfaces: exact overlap, with a table of what the original got right and wrong, and checked by brute force."""

import itertools
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.coordination import surfaces
from treadle.coordination.surfaces import Surface, literal_starts, matches_any, resolved
from treadle.errors import ConfigError
from treadle.policy import patterns


def meet(a: str, b: str, top: str = "") -> bool:
    one, other = Surface(a, top), Surface(b, top)
    assert one.overlaps(other) == other.overlaps(one)
    return one.overlaps(other)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("src/a/**", "src/a/b.ts"),
        ("src/a/**", "src/a"),
        ("src/a/**", "src/a/"),
        ("src/a/**", "src"),
        ("src/a/**", "src/**"),
        ("src/a/**", "**"),
        ("src/a/**", "src/*/b.ts"),
        ("src/a/**", "./src/a/b.ts"),
        ("src/a/**", "src//a/b.ts"),
        ("src/a/**", "src/x/../a/b.ts"),
        ("src/a/**", "src/?/b.ts"),
        ("src/a/**", "src/[a]/b.ts"),
        ("src/a/**", "src/{x,a}/b.ts"),
        ("*.md", "README.md"),
        ("docs/*.md", "docs"),
        ("lib/x.ts#foo", "lib/x.ts"),
        ("lib/x.ts#foo", "lib/x.ts#foo"),
        ("lib/x.ts#foo", "./lib//x.ts#foo"),
        ("lib/x.ts#foo", "lib/**"),
        ("lib/x.ts#foo", "lib/*.ts#bar"),
        ("src", "src/a/b.ts"),
        (".", "anything/at/all"),
    ],
)
def test_these_surfaces_collide(held: str, asked: str) -> None:
    assert meet(held, asked)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("src/a/**", "src/ab"),
        ("src/a/**", "Src/a/b.ts"),
        ("docs/*.md", "docs/sub/x.md"),
        ("docs/*.md", "docs/*.txt"),
        ("lib/x.ts#foo", "lib/x.ts#bar"),
        ("lib/x.ts#foo", "lib/y.ts#foo"),
        ("lib/x.ts#foo", "lib/*.js"),
        ("src/[!a]/**", "src/a/b"),
        ("a/*/c", "a/b/d"),
    ],
)
def test_these_surfaces_do_not_collide(held: str, asked: str) -> None:
    assert not meet(held, asked)


def test_what_is_a_file_has_nothing_under_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    assert not meet("README.md", "**/*.py", str(tmp_path))
    assert meet("README", "**/*.py", str(tmp_path))  # it may become a directory
    assert not meet("x.ts#foo", "**/*.py")


def test_an_absolute_path_in_the_repository_is_the_relative_one(tmp_path: Path) -> None:
    top = str(tmp_path)
    assert meet(f"{top}/src/a.py", "src/*.py", top)
    assert meet(f"{top}/src/**", "src/a.py", top)
    assert meet(top, "anything", top)
    assert not meet("/etc/passwd", "**", top)
    (tmp_path / "repository").mkdir()
    (tmp_path / "link").symlink_to("repository")
    top = str(tmp_path / "repository")
    assert meet(f"{tmp_path}/link/src/*.py", "src/a.py", top)
    assert not meet(f"{tmp_path}/link/src/*.py", "docs", top)


def test_a_path_taken_literally_may_have_any_characters() -> None:
    assert Surface.of("a#b[1].ts").overlaps(Surface("*.ts"))
    assert not Surface.of("a#b").overlaps(Surface("a"))
    assert Surface.of("a#b").overlaps(Surface(r"a\#b"))
    assert not Surface.of("[a].ts").overlaps(Surface("a.ts"))


@pytest.mark.parametrize("text", ["", "#symbol", "a\nb", "a\tb", "x" * 5000])
def test_what_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Surface(text)


PATHS = ["/".join(names) for depth in range(1, 6) for names in itertools.product(["a", "b", "ab"], repeat=depth)]
PATTERNS = st.lists(
    st.sampled_from(["a", "b", "*", "?", "**", "[ab]", "[!a]", "a*", "*b", "{a,b}", "..", "."]), min_size=1, max_size=3
).map("/".join)


@given(PATTERNS, PATTERNS)
@example("a/b", "**/a/a")
def test_overlap_agrees_with_trying_every_short_path(a: str, b: str) -> None:
    both = [path for path in PATHS if patterns.match(a, path) and patterns.match(b, path)]
    if both:
        assert meet(a, b), both[0]
    elif ".." not in a and ".." not in b:
        # Three names and five levels (one whole pattern, then what follows the other's `**`) are enough to show
        # whatever two such patterns have in common.
        assert not meet(a, b)


def test_a_link_in_a_surface_leads_to_what_it_stands_for(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "src" / "a[1]").mkdir(parents=True)
    (top / "link").symlink_to("src")
    (top / "deep").symlink_to("link/a[1]")
    (top / "out").symlink_to(tmp_path)
    for text, found in (
        ("link/b.ts", "src/b.ts"),
        ("link/**#x", "src/**#x"),
        ("deep/c", "src/a\\[1\\]/c"),
        ("src/b.ts", "src/b.ts"),
        ("*/link", "*/link"),
        ("../link/x", "../link/x"),
        ("/etc/x", "/etc/x"),
    ):
        real = resolved(text, str(top))
        assert real == found or Surface(real).is_same(Surface(found)), text
    assert resolved("link/b.ts", "") == "link/b.ts"
    with pytest.raises(ConfigError, match=f"leads out of this repository, to {tmp_path}"):
        resolved("out/x", str(top))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("src", True),
        ("src/a/b.ts", True),
        ("**/*.ts", True),
        ("*.ts", False),
        ("src/*", True),
        ("lib/**", False),
        ("{lib,src}/a", True),
        ("**/config", False),
        ("src/a/**", True),
        ("README", False),
    ],
)
def test_a_surface_covers_something_that_is_there_or_nothing(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "b.ts").write_text("")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("")
    assert matches_any(Surface(text), str(tmp_path)) is found


def test_after_many_files_a_glob_gets_the_benefit_of_the_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("")
    monkeypatch.setattr(surfaces, "LOOK_AT", 3)
    assert not matches_any(Surface("*.md"), str(tmp_path))
    monkeypatch.setattr(surfaces, "LOOK_AT", 2)
    assert matches_any(Surface("*.md"), str(tmp_path))
    assert list(literal_starts("src/a*/b")) == ["src"] and list(literal_starts("../x")) == []
    assert sorted(literal_starts("{a,b}/c/*")) == ["a/c", "b/c"] and list(literal_starts("**")) == [""]


def test_a_name_that_exists_is_that_name_and_accents_are_one_however_they_are_written(tmp_path: Path) -> None:
    page = tmp_path / "app" / "[id]" / "page.tsx"
    page.parent.mkdir(parents=True)
    page.touch()
    for text in ("app/[id]/page.tsx", "app/[id]/**", "app/[id]", "app/[id]/*.tsx"):
        held = Surface(text, str(tmp_path))
        assert held.overlaps(Surface.of("app/[id]/page.tsx")), text
        assert not held.overlaps(Surface.of("app/i/page.tsx")), text
    assert Surface("cafe\u0301.md").overlaps(Surface.of("caf\u00e9.md"))
