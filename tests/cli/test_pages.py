"""`treadle docs`, and manual pages as man(1) shows them."""

import json
import os
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.conftest import need
from treadle.cli.help import _drawn, docs, man, page, pages


def test_the_pages_are_listed_by_kind() -> None:
    shown = CliRunner().invoke(docs).output
    kinds = [line for line in shown.splitlines() if not line.startswith(" ")]
    assert kinds == ["Tutorials:", "How to:", "Why it is so:", "Reference:"]
    assert "\n  one-shot                           One-shot runs" in shown.partition("Reference:")[2]
    assert len(shown.splitlines()) == len(pages()) + 4
    names = [page["name"] for page in json.loads(CliRunner().invoke(docs, ["--json"]).output)]
    assert names == [page.name for page in pages()] and len(set(names)) == len(names)


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


def shown(path: Path) -> str:
    need("man")
    env = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat"}
    done = subprocess.run(["man", "--warnings", "-l", path], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_every_command_has_a_page_that_man_shows_without_a_complaint(tmp_path: Path) -> None:
    result = CliRunner().invoke(man, ["--write", str(tmp_path)])
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "man1").iterdir()}
    assert {"treadle.1", "treadle-fleet-submit.1", "heimdall-claim.1", "treadle-run.1", "treadle-coord.1"} <= names
    assert "treadle-coord-claim.1" not in names and result.output == f"{len(names)} pages in {tmp_path / 'man1'}\n"
    assert (tmp_path / "man1" / "treadle.1").stat().st_mode & 0o777 == 0o644
    assert CliRunner().invoke(man, ["--write", str(tmp_path)]).exit_code == 0, "once more"
    text = shown(tmp_path / "man1" / "treadle-sessions-rm.1")
    assert "--older-than AGE" in text and "treadle sessions rm --older-than 30d --force" in text
    assert "--detach" in shown(tmp_path / "man1" / "treadle-run.1")
    top = shown(tmp_path / "man1" / "treadle.1")
    assert "- Drive, supervise" in top and "--append-system-prompt TEXT" in top


def test_text_is_never_taken_for_a_command_of_the_formatter(tmp_path: Path) -> None:
    tricky = ".so /etc/passwd\n'br\n\\fBback\\slash --dash\n.TH X"
    command = click.Command("x", help="a - b\n\n\b\n" + tricky)
    (tmp_path / "x.1").write_text(page(("x",), command))
    text = shown(tmp_path / "x.1")
    for line in tricky.splitlines():
        assert line in text
