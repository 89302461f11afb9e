"""`treadle docs`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.cli.help import _drawn, docs, pages


def test_a_page_is_plain_markdown_in_a_pipe_whatever_way_it_is_named() -> None:
    for name in ("one-shot", "one-shot.md", "docs/reference/one-shot.md", "One-Shot"):
        assert CliRunner().invoke(docs, [name]).output.startswith("# One-shot runs")
    told = json.loads(CliRunner().invoke(docs, ["one-shot", "--json"]).output)
    (page,) = [page for page in pages() if page.name == "one-shot"]
    assert told["title"].startswith("One-shot") and told["text"] == Path(page.path).read_text()
    assert CliRunner().invoke(docs, ["one-shot"]).output == told["text"]


def test_on_a_terminal_a_page_is_drawn_without_comments_and_with_words_for_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "<!-- made by hand -->\n# Weaving\n\nSee ![a loom](loom.svg) and [there](x).\n\n" + "word " * 60
    monkeypatch.setenv("COLUMNS", "40")
    narrow = _drawn(text)
    assert "made by hand" not in narrow and "(a picture: a loom)" in narrow and "Weaving" in narrow
    assert max(map(len, narrow.splitlines())) <= 40 and "\x1b" not in narrow
    monkeypatch.setenv("COLUMNS", "300")
    assert 60 < max(map(len, _drawn(text).splitlines())) <= 100
