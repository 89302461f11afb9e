"""What came of orders, as a person asks for it."""

from pathlib import Path

import pytest
import tomlkit
from click.testing import CliRunner

from tests.cli.fleet.commands import as_json, fleet, requested, stored, typed, typed_json
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.landing.test_merging import Finished
from tests.landing.test_merging import finished as finished
from tests.scripts import says
from treadle.cli.receipt import receipt
from treadle.fleet import client
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.records import Used


def test_what_changed_nothing_is_said_to_and_a_race_is_compared(running: None) -> None:
    first, second = fleet("submit", "x", "--agent", "null", "--best-of", "2").split()
    fleet("wait", first, second, "--timeout", "60")
    assert "has left no changes" in fleet("diff", first, code=1)
    assert "not checked by a command: x" in fleet("review", first) and "no changes" in as_json("review", first)["patch"]
    assert {row["order"] for row in as_json("compare", first)} == {first, second}
    assert fleet("compare", second).splitlines()[0].split()[:3] == ["PLACE", "ORDER", "STATE"]
    assert "is not in a git repository" in fleet("merge", first, "--into", "/", code=1)
    assert as_json("discard", first[:6]) == [{"id": first, "discarded": True}]


@pytest.mark.slow
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


@pytest.mark.slow
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


PATCH = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\xff\x1b\n"


async def test_work_is_looked_at_and_sent_back_with_comments(bus: Bus, tmp_path: Path) -> None:
    await streams.put(bus, "patch.o1.1", PATCH)
    result = {"patch": "patch.o1.1", "verified": True, "says": "did\x1b it", "stat": "", "outside_claims": ["b.txt"]}
    await stored(bus, "order1", result=result, title="the\nfirst")
    await stored(bus, "order2", result={"verified": False})
    assert await typed("diff", "order1") == PATCH.decode(errors="replace")
    assert (await typed_json("diff", "order1"))["patch"] == PATCH.decode(errors="replace")
    head, says, outside, *patch = (await typed("review", "order1")).split("\n")
    assert head == "order1  done, verified: the first" and says == "says      did\ufffd it"
    assert outside == "outside claims ['b.txt']" and patch[-2:] == ["+two\ufffd\ufffd", ""]
    assert await typed("review", "order2") == (
        "order2  done, NOT verified: order2\n(the order order2 has left no changes)\n"
    )
    found = await typed_json("review", "order1")
    assert found["order"]["id"] == "order1" and found["patch"].startswith("diff --git")
    (tmp_path / "notes").write_text("a.txt:1: too\nshort\n")
    sent = await typed("review", "order1", "--comments", str(tmp_path / "notes"))
    assert (await client.get_spec(bus, sent.strip())).comments == "a.txt:1\n> two\ufffd\x1b\ntoo\nshort"
    assert "id" in await typed_json("review", "order2", "--comments", "-", stdin="all of it")
    (tmp_path / "notes").write_text("\n")
    empty = await typed("review", "order1", "--comments", str(tmp_path / "notes"), code=1)
    assert f"{tmp_path / 'notes'} has no comments" in empty and "write PATH:LINE: TEXT" in empty


async def test_a_race_is_shown_from_the_best_to_the_worst(bus: Bus) -> None:
    for name, verified, files in (("none", None, 1), ("red", False, 2), ("best", True, 3)):
        used = Used(input_tokens=files)
        await stored(
            bus, name, {"race": "r"}, agent=f"a{files}", result={"verified": verified, "files": files}, used=used
        )
    assert [line.split() for line in (await typed("compare", "red")).splitlines()] == [
        ["PLACE", "ORDER", "STATE", "AGENT", "VERIFIED", "FILES", "TOKENS"],
        ["1", "best", "done", "a3", "yes", "3", "3"],
        ["2", "none", "done", "a1", "-", "1", "1"],
        ["3", "red", "done", "a2", "no", "2", "2"],
    ]
    assert await typed("discard", "red", "best") == ""
    assert [request["order"] for request in await requested(bus)] == ["red", "best"]


@pytest.mark.slow
async def test_merging_stops_at_the_first_that_conflicts_and_names_the_files(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    one, two = await finished.order("one", {"a.txt": "1\n"}), await finished.order("two", {"a.txt": "2\n"})
    three = await finished.order("three", {".github/workflows/ci.yml": "x\n"})
    first, second, conflict = (await typed("merge", one, two, "--into", str(repository), code=3)).splitlines()
    assert first == f"one  merged {git(repository, 'rev-parse', 'HEAD')[:12]}" and second.startswith("two  ")
    assert conflict == "    conflict in a.txt (content)"
    (step,) = await typed_json("merge", three, "--into", str(repository), code=3)
    assert not step.get("merged") and step["why"]
    (red,) = await typed_json("merge", three, "--into", str(repository), "--anyway", "--verify", "false", code=3)
    assert "merged" not in red and not (repository / ".github").exists()
    (step,) = await typed_json("merge", three, "--into", str(repository), "--anyway", "--verify", "true")
    assert step["merged"] and (repository / ".github").is_dir()
