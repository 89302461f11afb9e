"""Our entries in others' files: added, and removed again."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.coordination.hosts import Block, FileEdit, JsonEntry, Manifest, OwnFile, planned
from treadle.errors import ConfigError

ENTRY = {"hooks": [{"command": "ours"}]}


def edits(top: Path) -> list[FileEdit]:
    return [
        JsonEntry(str(top / ".x" / "settings.json"), ["hooks", "Pre"], ENTRY, "ours"),
        JsonEntry(str(top / ".x" / "settings.json"), ["servers", "heimdall"], {"command": "c"}),
        Block(str(top / "AGENTS.md"), "<!-- b -->", "<!-- e -->", "text\n"),
        OwnFile(str(top / "plugin" / "own.js"), "js"),
    ]


def test_what_nobody_has_changed_is_as_it_was_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / ".x").mkdir()
    odd = '{"hooks":{ "Pre":[]} ,\n "other" : 1}'
    (tmp_path / ".x" / "settings.json").write_text(odd)
    manifest = Manifest(str(tmp_path / "kept"), "one")
    for _ in range(2):  # a second time changes nothing
        manifest.apply(planned(edits(tmp_path)))
        settings = json.loads((tmp_path / ".x" / "settings.json").read_text())
        assert settings == {"hooks": {"Pre": [ENTRY]}, "other": 1, "servers": {"heimdall": {"command": "c"}}}
    assert (tmp_path / "AGENTS.md").read_text() == "<!-- b -->\ntext\n<!-- e -->\n"
    Manifest(str(tmp_path / "kept"), "one").remove(edits(tmp_path))
    assert (tmp_path / ".x" / "settings.json").read_text() == odd
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x", "kept"]


def test_of_what_somebody_changed_since_only_ours_is_cut_out(tmp_path: Path) -> None:
    manifest = Manifest(str(tmp_path / "kept"), "one")
    manifest.apply(planned(edits(tmp_path)))
    path = tmp_path / ".x" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "theirs": True}))
    (tmp_path / "AGENTS.md").write_text("before\n" + (tmp_path / "AGENTS.md").read_text() + "after\n")
    manifest.remove(edits(tmp_path))
    assert json.loads(path.read_text()) == {"theirs": True}
    assert (tmp_path / "AGENTS.md").read_text() == "before\nafter\n"


def test_what_two_programs_share_stays_until_the_last_is_removed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("theirs")
    block = [Block(str(tmp_path / "AGENTS.md"), "<!-- b -->", "<!-- e -->", "text\n")]
    for name in ("one", "two", "three"):
        Manifest(str(tmp_path / "kept"), name).apply(planned(block))
    for name in ("two", "one"):
        Manifest(str(tmp_path / "kept"), name).remove(block)
        assert "text" in (tmp_path / "AGENTS.md").read_text()
    Manifest(str(tmp_path / "kept"), "three").remove(block)
    assert (tmp_path / "AGENTS.md").read_text() == "theirs"


@pytest.mark.parametrize("text", ["// comment\n{}", "[]", '{"hooks": []}', '{"hooks": {"Pre": 1}}'])
def test_a_file_that_cannot_be_changed_safely_is_refused_untouched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="settings.json"):
        planned([JsonEntry(str(path), ["hooks", "Pre"], ENTRY, "ours")])
    assert path.read_text() == text


@given(st.text(alphabet="ab\n #<>!-", max_size=40))
def test_a_block_comes_out_of_any_text_as_it_went_in(text: str) -> None:
    block = Block("x", "<!-- begin -->", "<!-- end -->", "body\n")
    put = block.put(text)
    assert put.count("body\n") == 1 and block.put(put) == put
    assert (block.cut(put) or "").strip() == text.strip()


def test_a_file_that_was_changed_and_written_again_is_put_back_as_it_was_then(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("first\n")
    block = [Block(str(path), "<!-- b -->", "<!-- e -->", "text\n")]
    manifest = Manifest(str(tmp_path / "kept"), "one")
    manifest.apply(planned(block))
    path.write_text("second\n")
    manifest.apply(planned(block))
    assert "second" in path.read_text() and "text" in path.read_text()
    assert Manifest(str(tmp_path / "kept"), "one").remove(block) == [str(path)]
    assert path.read_text() == "second\n" and not (tmp_path / "kept" / "one.json").exists()


def test_what_is_gone_already_is_left_and_a_directory_of_ours_stays_while_something_is_in_it(tmp_path: Path) -> None:
    manifest = Manifest(str(tmp_path / "kept"), "one")
    own = [OwnFile(str(tmp_path / "a" / "b" / "own.js"), "js"), OwnFile(str(tmp_path / "other.js"), "js")]
    manifest.apply(planned(own))
    (tmp_path / "other.js").unlink()
    (tmp_path / "a" / "theirs").write_text("x")
    assert manifest.remove(own) == [str(tmp_path / "a" / "b" / "own.js")]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["theirs"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"hooks": {"Pre": [ENTRY, {"x": 1}]}}, {"hooks": {"Pre": [{"x": 1}]}}),
        ({"hooks": {"Pre": [ENTRY]}, "a": 1}, {"a": 1}),
        ({"hooks": {"Pre": [ENTRY], "Post": []}}, {"hooks": {"Post": []}}),
        ({"hooks": {"Pre": "odd"}}, None),
        ({"hooks": []}, None),
        ({"other": 1}, {"other": 1}),
        ({"hooks": {"Pre": [ENTRY]}}, None),
    ],
)
def test_an_entry_is_cut_out_with_what_is_empty_without_it(before: object, after: object) -> None:
    entry = JsonEntry("x", ["hooks", "Pre"], ENTRY, "ours")
    found = entry.cut(json.dumps(before))
    assert (None if found is None else json.loads(found)) == after
    assert json.loads(entry.put(None)) == {"hooks": {"Pre": [ENTRY]}} == json.loads(entry.put(" "))
    again = json.loads(entry.put(json.dumps({"hooks": {"Pre": [{"x": "ours"}, {"y": 1}]}})))
    assert again == {"hooks": {"Pre": [{"y": 1}, ENTRY]}}, "an older one of ours is replaced"
