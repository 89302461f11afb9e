"""`treadle receipt`: kept, shown, compared, signed; and what was changed, signed by another or said twice is found."""

import base64
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from tests.cli.conftest import SECOND
from tests.installed import treadle
from tests.stand_ins import bad_sidecar
from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from tests.workspace.repositories import git, make
from treadle.cli.receipt import (
    ReceiptCheck,
    _verify_envelopes,
    receipt,
)
from treadle.errors import ConfigError, NotFound
from treadle.host.store import ReceiptStore
from treadle.receipts.statement import PAYLOAD, PROVENANCE, STATEMENT, key_id, statement
from treadle.wire.sidecar import receipts


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(receipt, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


FIRST = SAMPLE_RECEIPT.meta.run_id


def test_a_receipt_is_exported_for_who_signs_it(store: ReceiptStore, tmp_path: Path) -> None:
    (unsigned,) = map(json.loads, run("export", FIRST).splitlines())
    assert unsigned["signatures"] == []
    with pytest.raises(NotFound, match="you have no key"):
        run("key")
    (statement,) = map(json.loads, run("export", FIRST, "--form", "statement").splitlines())
    assert statement["predicate"]["meta"]["run_id"] == FIRST, "a run that made nothing has no provenance"
    (predicate,) = map(json.loads, run("export", FIRST, "--form", "predicate", "--only", "receipt").splitlines())
    assert predicate == statement["predicate"]
    with pytest.raises(ConfigError, match="does not name the run's result"):
        run("export", FIRST, "--form", "statement", "--only", "provenance")
    public = run("keygen").strip()
    assert run("key").strip() == public
    out = tmp_path / "out"
    assert run("export", FIRST, "--out", str(out)) == "" and out.stat().st_mode & 0o777 == 0o644
    assert json.loads(base64.b64decode(json.loads(out.read_text())["payload"])) == statement


def test_a_name_that_is_said_twice_is_refused_as_readers_differ_about_it(store: ReceiptStore, tmp_path: Path) -> None:
    text = Path(store.path(SECOND)).read_text()
    assert text.count('"harness_ok":') == 1
    path = tmp_path / "r.json"
    path.write_text(text.replace('"harness_ok":', '"harness_ok":true,"harness_ok":'))
    done = treadle("receipt", "verify", str(path))
    assert done.returncode == 1 and "'harness_ok' twice" in done.stdout
    assert "whose it is" in treadle("receipt", "verify", store.path(SECOND)).stdout


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
    assert report["code"] == 1 and set(report["wrong"]) == {"content", "signature"} and len(lines) == 3


@pytest.mark.slow
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


def verified(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(receipt, ["verify", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_a_receipt_and_a_chain_are_valid_or_say_what_is_not(store: ReceiptStore, tmp_path: Path) -> None:
    note = "note: it was not asked whose it is: name the keys that count with --key or --trusted\n"
    assert verified(FIRST) == f"{note}{FIRST}: valid\n"
    assert verified("--chain") == f"2 receipts in {store.directory}: valid\n"
    last = verified("--chain", "--expect-last", "0" * 64, code=1)
    assert last.startswith("chain: ") and last.endswith("not valid\n")
    other = base64.b64encode(b"o" * 32).decode()
    unsigned = json.loads(verified(FIRST, "--key", other, "--json", code=10))
    assert set(unsigned["wrong"]) == {"signature"} and unsigned["signed_by"] is None and not unsigned["valid"]
    assert "unsigned: " in verified("--chain", "--key", other, code=10)
    assert verified(FIRST, "--expect", "outcome=complete,claimed.agent=my-sidecar").endswith(": valid\n")
    both = json.loads(verified(FIRST, "--expect", "verified=yes", "--expect", "outcome=partial", "--json", code=15))
    assert set(both["wrong"]) == {"verified", "outcome"} and both["facts"]["claimed.agent"] == "my-sidecar"
    with pytest.raises(NotFound, match="2 receipts begin with '550e'"):
        run("show", "550e")
    (tmp_path / "r.json").write_text("[]")
    with pytest.raises(ConfigError, match="is not a receipt"):
        run("show", str(tmp_path / "r.json"))
    with pytest.raises(NotFound, match="there are no receipts in"):
        verified("--chain", "--store", str(tmp_path / "none"))


@pytest.mark.parametrize("wrong", ["", "confined = ", "agent = []", 'agent = ["a", 1]', "agent = 1", "agent = {a = 1}"])
def test_a_policy_that_is_not_words_is_an_error(store: ReceiptStore, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "gate.toml").write_text(wrong)
    with pytest.raises(ConfigError):
        verified(FIRST, "--policy", str(tmp_path / "gate.toml"))


def envelope(found: dict[str, object]) -> dict[str, object]:
    return {"payloadType": PAYLOAD, "payload": base64.b64encode(json.dumps(found).encode()).decode(), "signatures": []}


def checked(*statements: dict[str, object]) -> ReceiptCheck:
    made = ReceiptCheck(checked="x")
    _verify_envelopes(b"\n".join(json.dumps(envelope(one)).encode() for one in statements), None, made)
    return made


def test_statements_must_be_about_the_same_things() -> None:
    sealed = receipts.sealed(SAMPLE_RECEIPT)
    tree = {"name": "tree", "digest": {"gitTree": "1" * 40}}
    whole = statement(sealed)
    built = {"_type": STATEMENT, "subject": [tree], "predicateType": PROVENANCE, "predicate": {"a": 1}}
    made = checked(whole, built)
    assert made.checks["content"] == ["the provenance says another thing than the receipt"]
    unknown = "signed by no one: name the key with --key or --trusted"
    assert made.checks["signature"] == [f"envelope 1: {unknown}", f"envelope 2: {unknown}"]
    assert checked({**whole, "subject": [tree]}).checks["content"] == ["its first subject is not the receipt"]
    del (bare := {**built})["predicate"]
    assert "no in-toto statement" in checked(whole, bare).checks["content"][0]
    assert checked({**whole, "subject": []}).checks["content"] == ["a statement lacks its subject or its predicate"]
    assert checked({**whole, "predicate": {"a": 1}}).checks["content"][0].startswith("its predicate is not a receipt")
    assert "the type another was checked" in checked({**built, "predicateType": "another"}).notes[0]
    assert "the receipt is not among the statements" in checked(built).notes[0]
    _verify_envelopes(b"[" * 100_000, None, deep := ReceiptCheck(checked="x"))
    assert deep.facts == {}
