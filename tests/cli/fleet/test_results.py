"""What came of orders, as a person asks for it."""

from pathlib import Path

import tomlkit
from click.testing import CliRunner

from tests.cli.fleet.commands import as_json, fleet
from tests.fleet.repositories import git
from tests.scripts import says
from treadle.cli.receipt import receipt


def test_what_changed_nothing_is_said_to_and_a_race_is_compared(running: None) -> None:
    first, second = fleet("submit", "x", "--agent", "null", "--best-of", "2").split()
    fleet("wait", first, second, "--timeout", "60")
    assert "has left no changes" in fleet("diff", first, code=1)
    assert "not checked by a command: x" in fleet("review", first) and "no changes" in as_json("review", first)["patch"]
    assert {row["order"] for row in as_json("compare", first)} == {first, second}
    assert fleet("compare", second).splitlines()[0].split()[:3] == ["PLACE", "ORDER", "STATE"]
    assert "is not in a git repository" in fleet("merge", first, "--into", "/", code=1)
    assert as_json("discard", first[:6]) == [{"id": first, "discarded": True}]


def test_the_receipt_of_a_run_comes_from_the_fleet_and_is_verified_like_any_other(
    running: None, tmp_path: Path
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(says("Done."))
    nothing = fleet("submit", "x", "--agent", "null").strip()
    order = fleet("submit", "x", "--agent", "native", "--model", f"scripted:{script}", "--root", str(tmp_path)).strip()
    fleet("wait", order, nothing, "--timeout", "90")
    assert "without a run of an agent" in fleet("receipt", nothing, code=1)
    assert fleet("receipt", order).startswith("complete  ") and as_json("receipt", order)["outcome"] == "complete"
    place = tmp_path / "run.json"
    fleet("receipt", order, "--out", str(place))
    words = ["verify", str(place), "--expect", "outcome=complete"]
    assert CliRunner().invoke(receipt, words).exit_code == 0
    place.write_text(place.read_text().replace('"outcome":"complete"', '"outcome":"partial"'))
    assert CliRunner().invoke(receipt, words).exit_code == 1


def test_what_is_on_the_branch_already_is_merged_and_says_so(running: None, tmp_path: Path) -> None:
    repository, script = tmp_path / "repository", tmp_path / "script.toml"
    repository.mkdir()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    call = {"name": "write_file", "arguments": {"file_path": "made.txt", "content": "made"}}
    replies = [{"text": "I write.", "call": [call]}, {"text": "Done.", "times": "always"}]
    script.write_text(tomlkit.dumps({"reply": replies}))
    model = f"scripted:{script}"
    order = fleet("submit", "x", "--agent", "native", "--model", model, "--root", str(repository)).strip()
    fleet("wait", order, "--timeout", "90")
    first, again = fleet("merge", order, "--into", str(repository)), fleet("merge", order, "--into", str(repository))
    assert "already" not in first and again.strip().endswith(": it is on the branch already")
    assert fleet("show", order).count("\nbase ") == 1
