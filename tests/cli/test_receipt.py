"""`treadle receipt` as a person types it."""

import base64
import json
import os
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from msgspec.structs import replace
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from tests.installed import treadle
from tests.workspace.repositories import git, make
from treadle.host.job import runs_directory
from treadle.host.signing import Signer
from treadle.host.store import ReceiptStore
from treadle.receipts.statement import key_id
from treadle.testing import bad_sidecar
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


def test_a_name_that_is_said_twice_is_refused_as_readers_differ_about_it(store: ReceiptStore, tmp_path: Path) -> None:
    text = Path(store.path(SECOND)).read_text()
    assert text.count('"harness_ok":') == 1
    path = tmp_path / "r.json"
    path.write_text(text.replace('"harness_ok":', '"harness_ok":true,"harness_ok":'))
    done = treadle("receipt", "verify", str(path))
    assert done.returncode == 1 and "'harness_ok' twice" in done.stdout
    assert "whose it is" in treadle("receipt", "verify", store.path(SECOND)).stdout


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


def made_by_a_run(top: Path) -> str:
    """The id of a real run in a repository with an address, whose check passed, signed with the person's key."""
    repository = make(top)
    repository.git("remote", "add", "origin", "https://me:token@example.com/a/b.git")
    sidecar = f"{sys.executable} {bad_sidecar.__file__} good"
    words = ("host", "run", "--task", "do it", "--sidecar", sidecar, "--verify", "test -e made.txt", "--json")
    done = treadle(*words, "--workspace-mode", "worktree", cwd=top)
    assert done.returncode == 0, done.stderr
    found: str = json.loads(done.stdout.splitlines()[-1])["meta"]["run_id"]
    return found


def test_what_is_exported_is_verified_here_and_elsewhere(tmp_path: Path) -> None:
    assert treadle("receipt", "export", "latest").returncode == 1
    public = treadle("receipt", "keygen").stdout.strip()
    run_id = made_by_a_run(tmp_path / "top")
    out = tmp_path / "run.intoto.jsonl"
    assert treadle("receipt", "export", run_id, "--out", str(out)).returncode == 0
    lines = out.read_text().splitlines()
    key = SSlibKey(key_id(public), "ed25519", "ed25519", {"public": base64.b64decode(public).hex()})
    for line in lines:
        assert Envelope.from_dict(json.loads(line)).verify([key], 1)
    first = json.loads(base64.b64decode(json.loads(lines[0])["payload"]))
    (commit,) = (one["digest"]["gitCommit"] for one in first["subject"] if "gitCommit" in one["digest"])
    source = first["predicate"]["buildDefinition"]["externalParameters"]["source"]
    assert source["uri"] == "git+https://example.com/a/b.git" and str(tmp_path) not in json.dumps(first)
    assert git("cat-file", "-t", commit, cwd=str(tmp_path / "top")).stdout == b"commit\n"

    done = treadle("receipt", "verify", str(out), "--key", public, "--expect", f"verified=yes,commit={commit}")
    assert done.returncode == 0 and "signed by" in done.stdout, done.stdout
    other = base64.b64encode(b"o" * 32).decode()
    assert treadle("receipt", "verify", str(out), "--key", other).returncode == 10
    stripped = {**json.loads(lines[1]), "signatures": []}
    (tmp_path / "stripped.json").write_text(json.dumps(stripped))
    assert treadle("receipt", "verify", str(tmp_path / "stripped.json"), "--key", public).returncode == 10
    body = base64.b64decode(stripped["payload"]).replace(b'"outcome":"complete"', b'"outcome":"partial"')
    changed = {**json.loads(lines[1]), "payload": base64.b64encode(body).decode()}
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    report = json.loads(treadle("receipt", "verify", str(tmp_path / "changed.json"), "--json").stdout)
    assert report["code"] == 1 and set(report["wrong"]) == {"content", "signature"}


def test_a_gate_has_a_code_for_each_reason_and_a_report(tmp_path: Path) -> None:
    run_id = made_by_a_run(tmp_path / "top")
    (tmp_path / "gate.toml").write_text('repo = "example.com/a/b"\nverified = true\nagent = "another"\n')
    junit = tmp_path / "report.xml"
    words = ("receipt", "verify", run_id, "--policy", str(tmp_path / "gate.toml"), "--junit", str(junit), "--json")
    done = treadle(*words, "--expect", "differences=none,enforced=kernel")
    report = json.loads(done.stdout)
    assert done.returncode == report["code"] == 13 and set(report["wrong"]) == {"agent", "enforced"}
    assert report["facts"]["verified"] == "yes" and report["facts"]["repo"] == "https://example.com/a/b.git"
    suite = ElementTree.fromstring(junit.read_text())
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert suite.get("failures") == "2" and failed == ["agent", "enforced"]
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[key]]\npublic = "{base64.b64encode(b"k" * 32).decode()}"\nwho = "ci"\n')
    assert treadle("receipt", "verify", run_id, "--trusted", str(keys)).returncode == 10
    for wrong in (["--expect", "colour=red"], ["--expect-last", "0"], ["--trusted", str(keys), "--key", "x"]):
        assert treadle("receipt", "verify", run_id, *wrong).returncode in (1, 2)


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
