"""`treadle receipt` as a person types it."""

import json
import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.installed import treadle
from treadle.host.job import runs_directory
from treadle.host.store import ReceiptStore
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts

SECOND = "550e8400-e29b-41d4-a716-446655440001"


@pytest.fixture
def store() -> ReceiptStore:
    kept = ReceiptStore()
    kept.add(SAMPLE_RECEIPT)
    kept.add(replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=SECOND), outcome="partial"))
    return kept


def test_receipts_are_listed_and_shown_by_id_beginning_path_or_latest(store: ReceiptStore) -> None:
    rows = json.loads(treadle("receipt", "list", "--json").stdout)
    assert [row["outcome"] for row in rows] == ["complete", "partial"]
    assert "partial" in treadle("receipt", "show", "latest").stdout
    shown = json.loads(treadle("receipt", "show", store.path(SECOND), "--json").stdout)
    assert shown["meta"]["run_id"] == SECOND
    assert "2 receipts begin with" in treadle("receipt", "show", "550e").stderr
    assert treadle("receipt", "show", "nothing").returncode == 1


def test_verify_finds_an_edited_file_and_a_broken_chain(store: ReceiptStore) -> None:
    assert treadle("receipt", "verify", "latest").returncode == 0
    assert treadle("receipt", "verify", "--chain").returncode == 0
    path = Path(store.path(SECOND))
    path.write_text(path.read_text().replace('"partial"', '"complete"'))
    done = treadle("receipt", "verify", str(path))
    assert done.returncode == 1 and "hash" in done.stdout
    report = json.loads(treadle("receipt", "verify", "--chain", "--json").stdout)
    assert not report["valid"] and SECOND in report["problems"][0]


def test_a_key_signs_what_comes_after_it(store: ReceiptStore) -> None:
    assert "no key" in treadle("receipt", "key").stderr
    public = treadle("receipt", "keygen").stdout.strip()
    assert treadle("receipt", "key").stdout.strip() == public
    done = treadle("receipt", "verify", "--chain", "--key", public)
    assert done.returncode == 1 and done.stdout.count("unsigned") == 2


def test_diff_names_each_place(store: ReceiptStore) -> None:
    first = receipts.normal(SAMPLE_RECEIPT).meta.run_id
    done = treadle("receipt", "diff", store.path(first), store.path(SECOND), "--json")
    places = {row["where"] for row in json.loads(done.stdout)}
    assert {"outcome", "meta.run_id", "receipt_sha256"} <= places and done.returncode == 1
    assert treadle("receipt", "diff", store.path(first), store.path(first)).returncode == 0


def test_other_failures_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(receipts.encode(replace(SAMPLE_RECEIPT, outcome="failed")))
    done = treadle("receipt", "verify", str(path))
    assert "no hash" in done.stdout and "no error" in done.stdout
    path.write_text("nonsense")
    assert "not a receipt" in treadle("receipt", "verify", str(path)).stderr
    assert treadle("receipt", "verify").returncode == 2


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


def test_what_the_hash_does_not_cover_is_named(store: ReceiptStore, tmp_path: Path) -> None:
    tree = json.loads(Path(store.path(SECOND)).read_bytes())
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**tree, "extra": 1}))
    done = treadle("receipt", "verify", str(path))
    assert done.returncode == 0 and "note: receipt.extra: not in the contract" in done.stdout


def test_a_run_that_ended_before_it_began_is_named(tmp_path: Path) -> None:
    meta = replace(SAMPLE_RECEIPT.meta, started_at="2024-01-01T00:00:01.500Z", finished_at="2024-01-01T00:00:01Z")
    path = tmp_path / "r.json"
    path.write_bytes(receipts.encode(receipts.sealed(replace(SAMPLE_RECEIPT, meta=meta))))
    assert "finished before it started" in treadle("receipt", "verify", str(path)).stdout


def test_the_chain_is_repaired_and_what_was_done_is_said(store: ReceiptStore) -> None:
    chain = Path(store.directory) / "chain.jsonl"
    chain.write_bytes(chain.read_bytes() + b'{"torn')
    assert "torn" in treadle("receipt", "verify", "--chain").stdout
    assert "cut off 6 bytes" in treadle("receipt", "repair").stdout
    assert (
        treadle("receipt", "verify", "--chain").returncode == 0
        and "nothing to repair" in treadle("receipt", "repair").stdout
    )


def test_a_receipt_is_exported_in_a_signed_envelope(store: ReceiptStore, tmp_path: Path) -> None:
    assert "keygen" in treadle("receipt", "export", "latest").stderr
    treadle("receipt", "keygen")
    assert treadle("receipt", "export", "latest", "--out", str(tmp_path / "out.json")).returncode == 0
    made = json.loads((tmp_path / "out.json").read_text())
    assert made["payloadType"] == "application/vnd.in-toto+json" and made["signatures"][0]["sig"]


def test_receipts_are_filtered_and_those_without_an_order_say_so(store: ReceiptStore) -> None:
    assert [
        row["outcome"] for row in json.loads(treadle("receipt", "list", "--outcome", "partial", "--json").stdout)
    ] == ["partial"]
    assert treadle("receipt", "list", "--task", "anything").stdout == ""
    assert "is no time" in treadle("receipt", "list", "--since", "soon").stderr
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
