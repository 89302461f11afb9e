"""`treadle docs`."""

import json

from click.testing import CliRunner

from treadle.cli.docs import docs, pages
from treadle.errors import NotFound


def test_the_pages_are_listed_by_kind() -> None:
    shown = CliRunner().invoke(docs).output
    assert "Tutorials:" in shown and "one-shot" in shown
    names = [page["name"] for page in json.loads(CliRunner().invoke(docs, ["--json"]).output)]
    assert names == [page.name for page in pages()] and len(set(names)) == len(names)


def test_a_page_is_plain_markdown_in_a_pipe_whatever_way_it_is_named() -> None:
    for name in ("one-shot", "one-shot.md", "docs/reference/one-shot.md", "One-Shot"):
        assert CliRunner().invoke(docs, [name]).output.startswith("# One-shot runs")
    assert json.loads(CliRunner().invoke(docs, ["one-shot", "--json"]).output)["title"].startswith("One-shot")


def test_a_page_that_is_not_there_is_told_with_what_is_near() -> None:
    result = CliRunner().invoke(docs, ["one-shoot"])
    assert isinstance(result.exception, NotFound) and "treadle docs one-shot" in str(result.exception)
