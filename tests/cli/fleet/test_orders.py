"""Giving orders, from files, lines and programs in other languages; and what came of them."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cli.fleet.commands import as_json, fleet, stored, typed, typed_json
from tests.conftest import need
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import git
from tests.landing.finished import finished as finished
from tests.scripts import says
from treadle.cli.fleet import fleet as group
from treadle.cli.receipt import receipt
from treadle.fleet import client
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import Bus


def test_orders_come_from_files_and_lines(running: None, tmp_path: Path) -> None:
    many = tmp_path / "orders.toml"
    many.write_text('[[order]]\ntask = "a"\npriority = 7\n[[order]]\ntask = "b"\n')
    given = as_json("submit", "--file", str(many), "--agent", "null", "--wait")
    assert [(order["title"], order["state"]) for order in given] == [("a", "done"), ("b", "done")]
    lines = '{"task": "c"}\n{"task": "d", "labels": ["none-has-it"]}\n'
    ids = fleet("submit", "--file", "-", "--agent", "null", stdin=lines).split()
    assert len(ids) == 2 and "has no label none-has-it" in fleet("explain", ids[1])
    assert "line 1: this is not an order: Object contains unknown field `tsk`" in fleet(
        "submit", "--file", "-", stdin='{"tsk": "c"}', code=1
    )
    shown = as_json("submit", "x", "--race", "null,null:1:1", "--dry-run")
    assert len(shown) == 2 and shown[0]["race"] == shown[1]["race"] != ""
    assert "race" not in str(as_json("submit", "x", "--agent", "null", "--dry-run"))
    assert fleet("wait", ids[1], "--timeout", "0.2", code=124)


def test_issues_are_worked_on_in_the_checkout_that_one_is_in_whoever_works(
    running: None, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    words = ("watch", "github:shop/web@http://127.0.0.1:1", "--agent", "null")
    monkeypatch.chdir(tmp_path)
    assert "this directory is not in a git repository" in fleet(*words, code=1)
    monkeypatch.chdir(repository)
    assert "no token in the variable GITHUB_TOKEN" in fleet(*words, code=1)


@pytest.mark.slow
def test_programs_without_treadle_in_other_languages_give_orders(running: None) -> None:
    examples = Path(__file__).parents[3] / "examples"
    address = places.load().address("submit")
    url = address.url.replace("nats://", f"nats://submit:{address.password}@")
    for argv in ([sys.executable, "fleet_client.py"], [need("node"), "fleet_client.mjs"]):
        done = subprocess.run([*argv, url, "x", "null"], cwd=examples, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "ended: done" in done.stdout, done.stdout + done.stderr


def test_a_mistake_in_a_file_is_named_with_its_line_and_its_path(tmp_path: Path) -> None:
    """Nothing is submitted, and nothing needs to run for that."""
    many = tmp_path / "orders.toml"
    good = '# two orders\n[[order]]\ntask = "a"\n\n[[order]]\ntask = "b"\n'
    for wrong, place in (
        ("[order.limits]\nusdd = 3", f"{many}:5: order 2: this is not an order: Object contains unknown field `usdd`"),
        ("priority = true", f"{many}:5: order 2: this is not an order: Expected `int`, got `bool` - at `$.priority`"),
        ('id = "mine"', f"{many}:5: order 2: `id` is set when the order is submitted"),
    ):
        many.write_text(good + wrong + "\n")
        assert place in fleet("submit", "--file", str(many), code=1)
    many.write_text('agent = "null"\n' + good)
    assert "`agent` is outside of the orders" in fleet("submit", "--file", str(many), code=1)
    lines = tmp_path / "one.json"
    lines.write_text('{"task": "x", "policy": {"deny_wrte": []}}')
    assert "`deny_wrte` - at `$.policy`" in fleet("submit", "--file", str(lines), code=1)


def test_without_a_root_it_is_about_the_checkout_that_one_is_in(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "deep").mkdir()
    monkeypatch.chdir(repository / "deep")
    base = git(repository, "rev-parse", "HEAD")
    said = CliRunner().invoke(group, ["submit", "x", "--dry-run"])
    (shown,) = json.loads(said.stdout)
    assert (shown["root"], shown["base"]) == (str(repository), base)
    assert f"in {repository}, the checkout" in said.stderr
    (elsewhere,) = as_json("submit", "x", "--root", str(tmp_path), "--dry-run")
    assert elsewhere["root"] == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    (nowhere,) = as_json("submit", "x", "--dry-run")
    assert "root" not in nowhere


def test_options_become_the_fields_of_the_order(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('deny_write = ["secrets/**"]\n')
    words = ["--max-usd", "2.5", "--label", "a", "--label", "b", "--park", "--answer-within", "2h", "--title", "T"]
    words += ["--policy", str(policy), "--every", "30 6 * * mon-fri", "--time-zone", "UTC", "--answer-default", "allow"]
    (shown,) = as_json("submit", "x", *words, "--dry-run")
    assert shown["limits"] == {"usd": 2.5} and shown["labels"] == ["a", "b"] and shown["park"] == 10.0
    assert shown["answer_seconds"] == 7200.0 and shown["policy"] == {"deny_write": ["secrets/**"]}
    assert (shown["cron"], shown["zone"], shown["title"]) == ("30 6 * * mon-fri", "UTC", "T")
    assert shown["answer_default"] == "allow" and "agent" not in shown
    (timed,) = as_json("submit", "x", "--every", "6h", "--not-before", "+90m", "--dry-run")
    assert timed["every"] == 21600.0 and timed["not_before"] > 1e9


def shown(*words: str, **more: Any) -> Any:
    return as_json("submit", *words, "--agent", "null", "--dry-run", **more)


def test_each_order_of_a_race_has_a_key_and_an_agent_of_its_own() -> None:
    raced = as_json("submit", "x", "--race", " null, ,null:1 ", "--idempotency-key", "k", "--dry-run")
    assert [each["agent"] for each in raced] == ["null", "null:1"] and raced[0]["id"] != raced[1]["id"]
    (one,) = shown("x", "--best-of", "1", "--idempotency-key", "k")
    assert one["id"] == raced[0]["id"] and "race" not in one and one["task"] == "x"
    keyed, plain = ("x", "--best-of", "2", "--idempotency-key", "k"), ("x", "--best-of", "2")
    assert [each["id"] for each in shown(*keyed)] == [each["id"] for each in raced]
    assert len({each["id"] for _ in range(2) for each in shown(*plain)}) == 4
    assert len({each["race"] for each in shown("x", "--best-of", "2")}) == 1


def test_the_task_comes_from_a_file_and_a_file_overrides_what_was_typed(tmp_path: Path) -> None:
    (tmp_path / "task").write_text("from a file")
    assert shown("--prompt-file", str(tmp_path / "task"))[0]["task"] == "from a file"
    (tmp_path / "one.toml").write_text('task = "a"\npriority = 7\n')
    (one,) = shown("--file", str(tmp_path / "one.toml"), "--priority", "3", "--title", "T")
    assert (one["task"], one["priority"], one["title"]) == ("a", 7, "T")
    (tmp_path / "some.json").write_text('[{"task": "a"}, {"task": "b"}]')
    assert [each["task"] for each in shown("--file", str(tmp_path / "some.json"))] == ["a", "b"]
    assert [each["task"] for each in shown("--file", "-", stdin='\n{"task": "c"}\n \n{"task": "d"}')] == ["c", "d"]
    assert "line 2 is not JSON" in fleet("submit", "--file", "-", stdin='{"task": "c"}\nnonsense', code=1)
    (tmp_path / "some.json").write_text('[{"task": "a"}, {"tsk": "b"}]')
    wrong = fleet("submit", "--file", str(tmp_path / "some.json"), code=1)
    assert f"{tmp_path / 'some.json'}: order 2: this is not an order" in wrong


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--not-before", "2026-12-01T06:00+00:00"], "not_before", 1796104800.0),
        (["--every", "90s"], "every", 90.0),
        (["--park"], "park", 10.0),
        (["--park", "1m"], "park", 60.0),
        (["--in-place"], "in_place", True),
        (["--network", "npm,*.example.com"], "network", "npm,*.example.com"),
    ],
)
def test_a_value_is_read_as_its_field_wants_it(words: list[str], field: str, value: object) -> None:
    assert shown("x", *words)[0][field] == value


def test_a_time_that_is_none_is_refused_and_a_crontab_line_has_the_zone_of_this_machine() -> None:
    (cron,) = shown("x", "--every", "0 6 * * *")
    assert cron["cron"] == "0 6 * * *" and cron["zone"] and "every" not in cron
    (later,) = shown("x", "--not-before", "+90m")
    assert 5300 < later["not_before"] - time.time() <= 5400


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
        "order2  done, NOT verified: order2\n(the order order2 has no changes)\n"
    )
    found = await typed_json("review", "order1")
    assert found["order"]["id"] == "order1" and found["patch"].startswith("diff --git")
    (tmp_path / "notes").write_text("a.txt:1: too\nshort\n")
    sent = await typed("again", "order1", "--comments", str(tmp_path / "notes"))
    assert (await client.get_spec(bus, sent.split()[0])).comments == "a.txt:1\n> two\ufffd\x1b\ntoo\nshort"
    assert "name" in (await typed_json("again", "order2", "--comments", "-", stdin="all of it"))[0]
    (tmp_path / "notes").write_text("\n")
    empty = await typed("again", "order1", "--comments", str(tmp_path / "notes"), code=1)
    assert "there are no comments" in empty and "write PATH:LINE: TEXT" in empty
