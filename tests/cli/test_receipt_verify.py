"""`treadle receipt verify`: what was changed, signed by another or said twice is found."""

import base64
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from msgspec.structs import replace
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from tests.cli.receipts import SECOND
from tests.installed import treadle
from tests.workspace.repositories import git, make
from treadle.host.store import ReceiptStore
from treadle.receipts.statement import key_id
from treadle.testing import bad_sidecar
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts


def test_verify_finds_an_edited_file_and_a_broken_chain(store: ReceiptStore) -> None:
    assert treadle("receipt", "verify", "latest").returncode == 0
    assert treadle("receipt", "verify", "--chain").returncode == 0
    path = Path(store.path(SECOND))
    path.write_text(path.read_text().replace('"partial"', '"complete"'))
    done = treadle("receipt", "verify", str(path))
    assert done.returncode == 1 and "hash" in done.stdout
    report = json.loads(treadle("receipt", "verify", "--chain", "--json").stdout)
    assert not report["valid"] and SECOND in report["problems"][0]


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
