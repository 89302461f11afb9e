"""Whatever is in a file that somebody calls a receipt, looking at it ends in an answer or in an error of ours."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Command
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.installed import treadle
from tests.safety.receipts.corpus import GIT
from tests.scripts import calls, says
from tests.workspace.repositories import make
from treadle.cli.project import evidence
from treadle.cli.receipt import receipt
from treadle.errors import TreadleError
from treadle.host.gate import NOTES
from treadle.host.store import ReceiptStore
from treadle.landing import authorship
from treadle.wire.sidecar.receipts import LARGEST, receipt_hash
from treadle.wire.sidecar.repair import read_receipt
from treadle.workspace import checkouts


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [{"a": made}]
    return made


ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1e308, float("nan"), "", "x" * 100_000, "\ud800", "\x1b[2J\nsigned by you", [], {}),
    *([[]], [1, "a", None], {"a": 1}, {"": ""}, ["x"] * 3000, nested(40), nested(450), "2026-13-45T00:00:00Z"),
)


def places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, inside in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*above, name)
        yield from places(inside, (*above, name)) if len(above) < 20 else ()


def copied(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


@some.composite
def spoiled(draw: some.DrawFn, tree: Any) -> Any:
    """The tree with one to three of its parts removed, replaced, wrapped or added."""
    made = copied(tree)
    for _ in range(draw(some.integers(1, 3))):
        *above, name = draw(some.sampled_from([*places(made)]))
        holder = made
        for part in above:
            holder = holder[part]
        match draw(some.sampled_from(["remove", "replace", "replace", "wrap", "add"])):
            case "remove" if len(holder) > 1:
                del holder[name]
            case "add" if isinstance(holder, dict):
                holder["x"] = copied(draw(some.sampled_from(ODD)))
            case "wrap":
                holder[name] = [holder[name]]
            case _:
                holder[name] = copied(draw(some.sampled_from(ODD)))
    return made


def looked_at(program: Command, *words: str) -> None:
    done = CliRunner().invoke(program, words)
    assert done.exception is None or isinstance(done.exception, SystemExit | TreadleError), (words, done.exc_info)
    assert "\x1b" not in done.stdout and "\nsigned by you" not in done.stdout


@pytest.fixture
def honest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
    """The receipt of a run, and its envelopes, in a repository with a gate."""
    made = make(tmp_path / "top")
    made.git("remote", "add", "origin", "https://example.com/a/b.git")
    monkeypatch.chdir(made.top)
    model = tmp_path / "model.toml"
    model.write_text(calls("bash", {"command": "echo x > new.txt"}) + says("Done.", times="always"))
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{model}"}
    treadle("receipt", "keygen")
    treadle("receipt", "gate", "init", "--check", "true")
    made.git("add", "-f", ".treadle")
    made.git("commit", "-qm", "gate")
    done = treadle("host", "run", "--task", "x", "--agent", "native", "--verify", "true", "--json", env=env)
    lines = treadle("receipt", "export", "latest").stdout.splitlines()
    return json.loads(done.stdout.splitlines()[-1]), [*map(json.loads, lines)]


def refused(program: Command, *words: str) -> str:
    done = CliRunner().invoke(program, words)
    assert isinstance(done.exception, TreadleError) and done.exception.hint, (words, done.output)
    return str(done.exception)


@pytest.mark.long
def test_what_is_too_large_or_never_ends_is_not_read(honest: tuple[Any, list[Any]]) -> None:
    store, user = ReceiptStore(), checkouts.around(".")
    run_id = honest[0]["meta"]["run_id"]
    os.mkfifo("pipe")
    with open("large", "wb") as file:
        file.truncate(LARGEST + 1)
    for path, why in (("/dev/zero", "not a regular file"), ("./pipe", "not a regular file"), ("./large", "128 MiB")):
        for words in (
            ["show"],
            ["verify"],
            ["export"],
            ["order"],
            ["gate", "check", "HEAD", "--target", "HEAD", "--receipt"],
        ):
            assert why in refused(receipt, *words, path)
        assert why in refused(evidence, path)
    os.replace("pipe", store.path(run_id))
    assert [(each.kind, each.run_id) for each in store.check()] == [("unreadable", run_id)]
    large = user.run("hash-object", "-w", os.path.abspath("large")).stdout.decode().strip()
    for ref in (NOTES, authorship.GIT_AI, authorship.TRACE):
        user.run("notes", f"--ref={ref}", "add", "-C", large, "HEAD", env=GIT)
    assert "128 MiB" in refused(receipt, "gate", "check", "HEAD", "--target", "HEAD")
    assert authorship.origin("a.txt", 1).claims == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(some.data())
@pytest.mark.slow
def test_a_crafted_receipt_is_answered(honest: tuple[Any, list[Any]], data: some.DataObject) -> None:
    crafted = data.draw(spoiled(honest[0]))
    try:
        crafted["receipt_sha256"] = receipt_hash(read_receipt(json.dumps(crafted).encode(), []))
    except (ValueError, TypeError):
        pass  # what has no hash is looked at, too
    Path("r.json").write_text(json.dumps(crafted))
    expected = "confined=yes,network=off,unchanged=a*,agent=native,model=m,differences=none,repo=example.com/a/b"
    for words in (
        *(["show"], ["show", "--json"], ["verify", "--expect", expected], ["export"], ["order"]),
        *(["export", "--only", "provenance", "--form", "predicate"]),
    ):
        looked_at(receipt, *words, "./r.json")
    looked_at(evidence, "./r.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(some.data())
@pytest.mark.slow
def test_crafted_envelopes_are_answered(honest: tuple[Any, list[Any]], data: some.DataObject) -> None:
    envelopes = [{**one} for one in honest[1]]
    if data.draw(some.booleans()):
        one = data.draw(some.sampled_from(envelopes))
        inside = data.draw(spoiled(json.loads(base64.b64decode(one["payload"]))))
        one["payload"] = base64.b64encode(json.dumps(inside).encode()).decode()
    else:
        envelopes = data.draw(spoiled(envelopes))
    Path("r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in envelopes))
    for words in (["verify"], ["show"], ["gate", "check", "HEAD", "--target", "HEAD", "--receipt"]):
        looked_at(receipt, *words, "./r.jsonl")
