"""`treadle receipt` as a person types it."""

import base64
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.cli.receipts import SECOND
from tests.installed import treadle
from treadle.cli.host import WIDTH
from treadle.cli.receipt import _differences, _short, receipt
from treadle.errors import ConfigError, NotFound
from treadle.host.job import runs_directory
from treadle.host.signing import Signer
from treadle.host.store import ReceiptStore
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts


def test_receipts_are_listed_and_shown_by_id_beginning_path_or_latest(store: ReceiptStore) -> None:
    rows = json.loads(treadle("receipt", "list", "--json").stdout)
    assert [row["outcome"] for row in rows] == ["complete", "partial"]
    assert "partial" in treadle("receipt", "show", "latest").stdout
    shown = json.loads(treadle("receipt", "show", store.path(SECOND), "--json").stdout)
    assert shown["meta"]["run_id"] == SECOND
    assert "2 receipts begin with" in treadle("receipt", "show", "550e").stderr


def test_a_key_signs_what_comes_after_it(store: ReceiptStore) -> None:
    assert "no key" in treadle("receipt", "key").stderr
    public = treadle("receipt", "keygen").stdout.strip()
    assert treadle("receipt", "key").stdout.strip() == public
    done = treadle("receipt", "verify", "--chain", "--key", public)
    assert done.returncode == 10 and done.stdout.count("unsigned") == 2


def test_diff_names_each_place(store: ReceiptStore) -> None:
    first = receipts.normal(SAMPLE_RECEIPT).meta.run_id
    done = treadle("receipt", "diff", store.path(first), store.path(SECOND), "--json")
    places = {row["where"] for row in json.loads(done.stdout)}
    assert {"outcome", "meta.run_id", "receipt_sha256"} <= places and done.returncode == 1
    assert treadle("receipt", "diff", store.path(first), store.path(first)).returncode == 0


def test_what_was_asked_is_compared_alone_also_where_no_policy_was(tmp_path: Path) -> None:
    def asked(name: str, **more: object) -> str:
        path = tmp_path / name
        path.write_bytes(receipts.encode(replace(SAMPLE_RECEIPT, usage_raw={"treadle": more})))
        return str(path)

    strict = asked("a", order={"task": "x", "stored": 1}, policy={"rules": ["deny Bash"]})
    free = asked("b", order={"task": "x", "stored": 2}, policy=None)
    done = treadle("receipt", "diff", "--asked", strict, free, "--json")
    assert json.loads(done.stdout) == [{"where": "policy", "a": ["deny Bash"], "b": None}]
    assert "does not say what was asked" in treadle("receipt", "diff", "--asked", strict, asked("c")).stderr


def test_other_failures_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(receipts.encode(replace(SAMPLE_RECEIPT, outcome="failed")))
    done = treadle("receipt", "verify", str(path))
    assert "no hash" in done.stdout and "no error" in done.stdout
    path.write_text("nonsense")
    assert "not a receipt" in treadle("receipt", "verify", str(path)).stderr


def test_what_is_no_receipt_is_not_shown_as_one(store: ReceiptStore, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for text in ('{"t": "run", "id": "x"}', "[]", "[" * 200_000):
        path.write_text(text)
        done = treadle("receipt", "show", str(path))
        assert done.returncode == 1 and "is not a receipt" in done.stderr and "Traceback" not in done.stderr
    assert (
        "there are no receipts in"
        in treadle("receipt", "verify", "--chain", "--store", str(tmp_path / "nowhere")).stderr
    )


def test_the_chain_is_repaired_and_what_was_done_is_said(store: ReceiptStore) -> None:
    chain = Path(store.directory) / "chain.jsonl"
    chain.write_bytes(chain.read_bytes() + b'{"torn')
    assert "torn" in treadle("receipt", "verify", "--chain").stdout
    assert "cut off 6 bytes" in treadle("receipt", "repair").stdout
    assert (
        treadle("receipt", "verify", "--chain").returncode == 0
        and "nothing to repair" in treadle("receipt", "repair").stdout
    )


def test_a_key_that_exists_is_used(tmp_path: Path) -> None:
    seed = base64.b64encode(b"7" * 32).decode()
    (tmp_path / "key").write_text(seed)
    public = Signer(b"7" * 32).public_key
    assert (
        treadle("receipt", "keygen", "--from", "env:KEY_OF_CI", env={**os.environ, "KEY_OF_CI": seed}).stdout.strip()
        == public
    )
    assert treadle("receipt", "keygen", "--from", str(tmp_path / "key")).stdout.strip() == public, "it is the same"
    refused = treadle("receipt", "keygen")
    assert refused.returncode == 1 and "already" in refused.stderr


def test_receipts_are_filtered_and_those_without_an_order_say_so(store: ReceiptStore) -> None:
    assert [
        row["outcome"] for row in json.loads(treadle("receipt", "list", "--outcome", "partial", "--json").stdout)
    ] == ["partial"]
    assert treadle("receipt", "list", "--task", "anything").stdout == ""
    assert "not kept" in treadle("receipt", "order", "latest").stderr
    assert "does not say what was asked" in treadle("receipt", "diff", "--asked", SECOND, "latest").stderr


def test_what_is_kept_of_old_runs_is_thrown_away_and_the_receipts_stay(store: ReceiptStore) -> None:
    for name, age in (("old", 40), ("new", 0)):
        folder = Path(runs_directory()) / name
        folder.mkdir(parents=True)
        (folder / "patch.diff").write_text("")
        os.utime(folder, (time.time() - age * 86400,) * 2)
    assert treadle("receipt", "discard", "--older-than", "30d").stdout == "discarded old\n"
    assert os.listdir(runs_directory()) == ["new"] and len(store) == 2


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(receipt, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


FIRST = SAMPLE_RECEIPT.meta.run_id
ASKED = {"treadle": {"order": {"agent": "codex", "task": "Fix\nthe " + "x" * 200}, "workspace": {"source": "/shop/a"}}}


def test_a_row_is_one_line_and_each_filter_leaves_what_it_names(store: ReceiptStore) -> None:
    third = "6" * 8 + FIRST[8:]
    store.add(
        replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=third), outcome="failed", usage_raw=ASKED)
    )
    first, second, last = run("list").splitlines()
    assert first == f"    1  {FIRST}  complete  {SAMPLE_RECEIPT.meta.started_at:24}  my-sidecar  "
    assert f"  {SECOND}  partial   " in second and "  my-sidecar  Fix the xxx" in last and len(last) == WIDTH
    for words, ids in (
        (("--agent", "code"), [third]),
        (("--agent", "sidecar"), [FIRST, SECOND, third]),
        (("--outcome", "failed"), [third]),
        (("--repository", "/shop"), [third]),
        (("--repository", "/other"), []),
        (("--task", "FIX"), [third]),
        (("--since", "2000-01-01"), [FIRST, SECOND, third]),
        (("--since", "1s"), []),
    ):
        assert [row["run_id"] for row in json.loads(run("list", "--json", *words))] == ids, words
    assert run("list", "--store", store.directory) == run("list") != ""


def test_a_receipt_is_shown_with_its_place_and_its_order_as_it_was_kept(store: ReceiptStore) -> None:
    shown = run("show", FIRST[:36])
    assert shown.startswith("complete  ") and shown.endswith(f"  receipt: {store.path(FIRST)}\n")
    assert json.loads(run("show", FIRST, "--json"))["meta"]["run_id"] == FIRST
    path = Path(store.order_path(SAMPLE_RECEIPT.meta.work_order_id))
    with pytest.raises(NotFound, match="is not kept") as missing:
        run("order", FIRST)
    assert f"it would be {path}" in str(missing.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"task": "x"}')
    assert run("order", FIRST) == '{"task": "x"}'


def test_what_differs_is_shown_old_before_new_and_ends_with_1(store: ReceiptStore) -> None:
    assert '\noutcome\n  - "complete"\n  + "partial"\n' in "\n" + run("diff", FIRST, SECOND, code=1)
    assert run("diff", FIRST, FIRST) == "" and json.loads(run("diff", FIRST, FIRST, "--json")) == []
    one: object = {"a": [1, {"b": 2}], "c": None, "d": 1}
    other: object = {"a": [1, {"b": 3}, 4], "d": {"e": 1}}
    found = list(_differences(one, other, ""))
    assert found == [("a[1].b", 2, 3), ("a[2]", None, 4), ("d", 1, {"e": 1})]
    assert _short("x" * 198) == f'"{"x" * 198}"' and _short("x" * 199) == f'"{"x" * 199}...'


def test_a_chain_that_is_whole_is_not_repaired(store: ReceiptStore) -> None:
    assert run("repair") == "there was nothing to repair\n" and json.loads(run("repair", "--json")) == []


def test_a_receipt_is_exported_signed_or_for_who_signs_it(store: ReceiptStore, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="an envelope needs a key"):
        run("export", FIRST)
    with pytest.raises(NotFound, match="you have no key"):
        run("key")
    (statement,) = map(json.loads, run("export", FIRST, "--form", "statement").splitlines())
    assert statement["predicate"]["meta"]["run_id"] == FIRST, "a run that made nothing has no provenance"
    (predicate,) = map(json.loads, run("export", FIRST, "--form", "predicate", "--only", "receipt").splitlines())
    assert predicate == statement["predicate"]
    with pytest.raises(ConfigError):
        run("export", FIRST, "--form", "statement", "--only", "provenance")
    public = run("keygen").strip()
    assert run("key").strip() == public
    out = tmp_path / "out"
    assert run("export", FIRST, "--out", str(out)) == "" and out.stat().st_mode & 0o777 == 0o644
    (line,) = out.read_text().splitlines()
    assert json.loads(base64.b64decode(json.loads(line)["payload"])) == statement
