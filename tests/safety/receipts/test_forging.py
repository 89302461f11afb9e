"""Whoever has no key cannot make anything that a verifier takes for ours: each way that was tried is a row."""

import base64
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.conftest import need
from tests.installed import treadle
from tests.stand_ins import bad_sidecar
from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle.cli.receipt import receipt as command
from treadle.errors import TreadleError
from treadle.host.conclusion import recover
from treadle.host.job import FORMAT, PENDING, RUN, RunRecord, runs_directory
from treadle.host.signing import Signer, make_key
from treadle.host.store import ReceiptStore
from treadle.receipts.statement import PREDICATE, envelope, provenance, statement, summary
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import read_receipt

GOOD, BAD, NEVER = (f"550e8400-e29b-41d4-a716-44665544000{number}" for number in range(3))
TREE, OTHER_TREE = "c" * 40, "d" * 40
Tree = dict[str, Any]


def made(run_id: str, tree: str, ok: bool = True) -> Receipt:
    patch = {"kind": "patch", "path": "/r/patch.diff", "kept": "/r/patch.diff", "sha256": "ab" * 32, "bytes": 3}
    more = {
        "format": 1,
        "workspace": {"mode": "staged", "start_tree": "b" * 40, "result_tree": tree},
        "artifacts": [patch],
        "observed": {"check": {"command": "make", "ok": ok, "exit_code": int(not ok)}},
    }
    meta = replace(SAMPLE_RECEIPT.meta, run_id=run_id)
    error = receipts.ErrorMet(ts=meta.started_at, message="no")
    ended: dict[str, Any] = {} if ok else {"outcome": "failed", "trace": [error]}
    return replace(SAMPLE_RECEIPT, meta=meta, usage_raw={"treadle": more}, **ended)


class World:
    """A person's store with a good run and a failed one, both signed; the forger has everything but the key."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.signer = make_key()
        self.store = ReceiptStore(signer=self.signer)
        for made_of in (made(GOOD, TREE), made(BAD, OTHER_TREE, ok=False)):
            run = self.store.register(made_of.meta.run_id, None, "b" * 40, key_in_reach=False)
            self.store.add(made_of, run)

    def tree(self, run_id: str = GOOD) -> Tree:
        found: Tree = json.loads(Path(self.store.path(run_id)).read_bytes())
        return found

    def file(self, tree: Tree, name: str = "forged.json", *, seal: bool = True) -> str:
        """A file with a right hash."""
        if seal:
            found = receipts.sealed(read_receipt(json.dumps(tree).encode(), []))
            tree = {**tree, "receipt_sha256": found.receipt_sha256}
        (self.here / name).write_text(json.dumps(tree))
        return f"./{name}"

    def envelopes(self, run_id: str = GOOD) -> list[Tree]:
        return [*map(json.loads, Path(self.store.statements_path(run_id)).read_text().splitlines())]

    def lines(self, *envelopes: Tree) -> str:
        (self.here / "forged.jsonl").write_text("".join(json.dumps(one) + "\n" for one in envelopes))
        return "./forged.jsonl"

    def exported(self, name: str) -> str:
        """What `export` prints for it."""
        done = CliRunner().invoke(command, ["export", name, "--out", str(self.here / "out.jsonl")])
        assert done.exit_code == 0, done.output
        return "./out.jsonl"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def verify(world: World, name: str, *more: str) -> tuple[int, Tree]:
    done = CliRunner().invoke(command, ["verify", name, "--key", world.signer.public_key, "--json", *more])
    if isinstance(done.exception, TreadleError):
        return 1, {"signed_by": None, "problems": [str(done.exception)], "facts": {}}
    return done.exit_code, json.loads(done.stdout)


def at(tree: Tree, path: str, value: object) -> Tree:
    """The tree with this value there; an absent member is added, `...` removes it."""
    place: Any = tree
    *parts, last = path.split(".")
    for part in parts:
        place = place[int(part) if isinstance(place, list) else part]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return tree


def test_what_was_signed_is_accepted_with_its_statements(world: World) -> None:
    for name in (GOOD, world.store.path(GOOD), world.exported(GOOD)):
        code, report = verify(world, name, "--expect", f"tree={TREE},verified=yes,outcome=complete")
        assert code == 0 and report["signed_by"] == world.signer.public_key, report
    assert len(world.envelopes(GOOD)) == 3
    assert len(world.envelopes(BAD)) == 2, "what is not complete has no provenance"


ADDED = [
    "approved_by",
    "verification.tests_passed",
    "verification.reviewed",
    "meta.branch",
    "meta.finished_by",
    "backend.vendor",
    "usage.saved_usd",
    "trace.0.approved",
    "artifacts.0.sha256",
    "signature",
    "attestation",
    "usage_raw.approved_by",
    "usage_raw.treadle.approved_by",
    "usage_raw.treadle.workspace.repository",
    "usage_raw.treadle.observed.check.ok",
    "usage_raw.treadle.signature.who",
    "usage_raw.treadle.signature.run.confined",
]


@pytest.mark.parametrize("path", ADDED)
def test_nothing_can_be_added_to_what_was_signed(world: World, path: str) -> None:
    code, report = verify(world, world.file(at(world.tree(), path, "yes")))
    assert code in (1, 10) and report["signed_by"] is None


CHANGED: list[tuple[str, object]] = [
    ("outcome", "FAILED"),
    ("outcome", "Complete"),
    ("outcome", ...),
    ("mode", ...),
    ("usage.request_units", ...),
    ("verification.harness_ok", 1),
    ("verification.harness_ok", False),
    ("meta.run_id", GOOD.upper()),
    ("meta.run_id", "{" + GOOD + "}"),
    ("meta.run_id", BAD),
    ("meta.started_at", "2024-01-15T10:30:00.000Z"),
    ("meta.finished_at", "2030-01-01T00:00:00Z"),
    ("meta.duration_ms", 0.0),
    ("meta.contract_version", "abp/v0.2"),
    ("usage.estimated_cost_usd", "0.5"),
    ("capabilities.root_access", "native"),
    ("trace.0.type", "approved"),
    ("trace.0.ts", "yesterday"),
    ("usage_raw.treadle.signature.algorithm", "rsa"),
    ("usage_raw.treadle.signature.algorithm", ...),
    ("usage_raw.treadle.signature.version", 1),
    ("usage_raw.treadle.signature.version", 2.0),
    ("usage_raw.treadle.signature.version", 3),
    ("usage_raw.treadle.signature.version", None),
    ("usage_raw.treadle.signature.version", ...),
    ("usage_raw.treadle.signature.run.key_in_reach", None),
    ("usage_raw.treadle.signature.run.pid", 1),
    ("usage_raw.treadle.signature.run", ...),
    ("usage_raw.treadle.signature.value", None),
    ("usage_raw.treadle.signature.value", ""),
    ("usage_raw.treadle.signature.public_key", base64.b64encode(b"o" * 32).decode()),
    ("usage_raw.treadle.signature", None),
    ("usage_raw.treadle.signature", ...),
    ("usage_raw.treadle.chain.sequence", 7),
    ("usage_raw.treadle.workspace.result_tree", OTHER_TREE),
    ("usage_raw.treadle", None),
]


@pytest.mark.parametrize(("path", "value"), CHANGED)
def test_nothing_of_what_was_signed_can_be_written_otherwise(world: World, path: str, value: object) -> None:
    code, report = verify(world, world.file(at(world.tree(), path, value), seal="signature" in path))
    assert code in (1, 10) and report["signed_by"] is None, report


def test_a_signature_has_one_spelling(world: World) -> None:
    value = world.tree()["usage_raw"]["treadle"]["signature"]["value"]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    same = f"{value[:-3]}{letters[letters.index(value[-3]) + 1]}=="
    assert base64.b64decode(same) == base64.b64decode(value) and same != value
    for other in (same, f"{value}\n", value.rstrip("="), f" {value}"):
        code, _ = verify(world, world.file(at(world.tree(), "usage_raw.treadle.signature.value", other)))
        assert code == 10, other


def version_1(world: World, **more: object) -> Tree:
    """A receipt as version 0.2.0 signed it, with these words in its block."""
    found = read_receipt(json.dumps(at(world.tree(), "usage_raw.treadle.signature", None)).encode(), [])
    value = world.signer.sign(receipts.canonical(receipts.normal(replace(found, receipt_sha256=None))))
    block = {"algorithm": "ed25519", "public_key": world.signer.public_key, "value": value, **more}
    return at(world.tree(), "usage_raw.treadle.signature", block)


def test_a_signature_of_version_1_counts_and_says_so_but_not_with_other_words(world: World) -> None:
    code, report = verify(world, world.file(version_1(world)))
    assert code == 0 and any("version 1" in note for note in report["notes"])
    for words in ({"who": "the boss"}, {"algorithm": "rsa"}, {"version": 1}, {"run": {"key_in_reach": False}}):
        assert verify(world, world.file(version_1(world, **words)))[0] == 10, words


@pytest.mark.parametrize("name", ["latest", GOOD, GOOD[:8], "550e", f"{BAD}.json"])
def test_a_file_with_the_name_of_a_run_is_not_read_for_it(world: World, name: str) -> None:
    world.file(at(world.tree(), "outcome", "complete") | {"task": "forged"}, name)
    for words in (["verify", name], ["show", name, "--json"], ["export", name], ["order", name]):
        done = CliRunner().invoke(command, words)
        assert "forged" not in done.output, words
    assert treadle("receipt", "show", f"./{name}", "--json", cwd=world.here).stdout, "a path has a slash"


Forgery = Callable[[World], str]


def edited(world: World) -> str:
    return world.file(at(world.tree(BAD), "outcome", "complete"))


def never_ran(world: World) -> str:
    tree = json.loads(receipts.encode(receipts.sealed(made(NEVER, TREE))))
    return world.file(tree)


def of_a_stranger(world: World) -> str:
    other = ReceiptStore(str(world.here / "other"), Signer(b"o" * 32))
    run = other.register(NEVER, None, "b" * 40, key_in_reach=False)
    return other.path(other.add(made(NEVER, TREE), run).meta.run_id)


def in_the_store(world: World) -> str:
    Path(world.store.path(BAD)).write_text(json.dumps(at(world.tree(BAD), "outcome", "complete")))
    return BAD


def with_the_chain(world: World) -> str:
    sealed = receipts.sealed(made(NEVER, TREE))
    Path(world.store.path(NEVER)).write_bytes(receipts.encode(sealed))
    link = {"format": 1, "sequence": 3, "run_id": NEVER, "sha256": sealed.receipt_sha256, "previous": None}
    with Path(world.store.directory, "chain.jsonl").open("a") as file:
        file.write(json.dumps(link) + "\n")
    return NEVER


@pytest.mark.parametrize("forgery", [edited, never_ran, of_a_stranger, with_the_chain])
def test_export_puts_the_key_under_nothing(world: World, forgery: Forgery) -> None:
    name = forgery(world)
    exported = CliRunner().invoke(command, ["export", name])
    assert "not signed" in exported.stderr
    assert [json.loads(line)["signatures"] for line in exported.stdout.splitlines()] and '"sig"' not in exported.stdout
    code, report = verify(world, world.exported(name))
    assert code in (1, 10) and report["signed_by"] is None


def test_what_is_signed_of_a_run_is_not_printed_for_another_receipt(world: World) -> None:
    os.replace(world.store.statements_path(GOOD), world.store.statements_path(BAD))
    done = CliRunner().invoke(command, ["export", BAD])
    assert "another receipt" in str(done.exception) and not done.stdout
    assert "not signed" in CliRunner().invoke(command, ["export", GOOD]).stderr


def test_a_run_that_nobody_registered_is_recovered_without_a_signature(world: World) -> None:
    for registered in (None, world.store.register(GOOD, None, "b" * 40, key_in_reach=False)):
        run_id = NEVER if registered is None else f"{NEVER[:-1]}9"
        place = Path(runs_directory()) / run_id
        place.mkdir(parents=True)
        meta = replace(SAMPLE_RECEIPT.meta, run_id=run_id)
        pending = replace(made(run_id, TREE), meta=meta)
        (place / PENDING).write_bytes(receipts.encode(pending))
        record = RunRecord(
            format=FORMAT,
            run_id=run_id,
            order=SAMPLE_ORDER,
            backend="x",
            mode="staged",
            started=0,
            registered=registered,
        )
        RUN.save(str(place / "run.json"), record)
        assert [one.meta.run_id for one in recover(world.store).receipts] == [run_id]
        assert verify(world, run_id)[0] == 10


def signed(world: World, statement_of: Tree, signer: Signer | None = None) -> Tree:
    by = signer or world.signer
    return envelope(statement_of, by.sign, by.public_key)


def old_export(world: World) -> str:
    """As version 0.2.0 has exported a file that somebody edited: with the trusted key."""
    found = receipts.sealed(read_receipt((world.here / edited(world)).read_bytes(), []))
    return world.lines(signed(world, statement(found)))


def old_export_of_nothing(world: World) -> str:
    return world.lines(signed(world, statement(receipts.sealed(made(NEVER, TREE)))))


def two_receipts(world: World) -> str:
    return world.lines(*world.envelopes(BAD), *world.envelopes(GOOD))


def two_receipts_the_other_way(world: World) -> str:
    return world.lines(*world.envelopes(GOOD), *world.envelopes(BAD))


def provenance_of_another(world: World) -> str:
    return world.lines(world.envelopes(GOOD)[0], *world.envelopes(BAD))


def summary_of_another(world: World) -> str:
    return world.lines(world.envelopes(BAD)[0], world.envelopes(GOOD)[2])


def signed_by_another(world: World) -> str:
    found = receipts.normal(world.store.get(GOOD))
    return world.lines(*(signed(world, make(found), Signer(b"o" * 32)) for make in (provenance, statement, summary)))


def without_signature(world: World) -> str:
    return world.lines(*({**one, "signatures": []} for one in world.envelopes()))


def with_the_keys_name(world: World) -> str:
    spoiled = world.envelopes()
    for one in spoiled:
        one["signatures"][0]["sig"] = base64.b64encode(b"0" * 64).decode()
    return world.lines(*spoiled)


def one_spoiled_of_three(world: World) -> str:
    first, *rest = world.envelopes()
    return world.lines({**first, "payload": base64.b64encode(b"{}").decode()}, *rest)


def another_payload_type(world: World) -> str:
    return world.lines(*({**one, "payloadType": "text/plain"} for one in world.envelopes()))


def a_failed_run_as_it_is(world: World) -> str:
    return world.exported(BAD)


def a_payload_beside_a_bundle(world: World) -> str:
    """Readers differ about which of the two counts."""
    return world.lines(
        *({**two, "dsseEnvelope": one} for one, two in zip(world.envelopes(), world.envelopes(BAD), strict=False))
    )


def a_payload_twice(world: World) -> str:
    made = Path(world.lines(*world.envelopes()))
    made.write_text(made.read_text().replace('"payload":', '"payload": "e30=", "payload":'))
    return "./forged.jsonl"


def provenance_alone(world: World) -> str:
    return world.lines(world.envelopes(GOOD)[0])


def predicate_of_another_type(world: World) -> str:
    tree = {**statement(receipts.normal(world.store.get(GOOD))), "predicateType": f"{PREDICATE}0"}
    return world.lines(signed(world, tree))


@pytest.mark.parametrize(
    "forgery",
    [
        *(old_export, old_export_of_nothing, two_receipts, two_receipts_the_other_way, provenance_of_another),
        *(summary_of_another, signed_by_another, without_signature, with_the_keys_name, one_spoiled_of_three),
        *(
            a_payload_beside_a_bundle,
            a_payload_twice,
            another_payload_type,
            a_failed_run_as_it_is,
            provenance_alone,
            predicate_of_another_type,
            in_the_store,
        ),
    ],
)
def test_no_envelopes_pass_but_those_of_the_run(world: World, forgery: Forgery) -> None:
    code, _ = verify(world, forgery(world), "--expect", "outcome=complete,verified=yes")
    assert code != 0


@pytest.mark.parametrize("forgery", [edited, never_ran, in_the_store, with_the_chain])
def test_what_is_shown_was_verified(world: World, forgery: Forgery) -> None:
    done = CliRunner().invoke(command, ["show", forgery(world)])
    assert "signed by you" not in done.output
    assert "signed by you" in CliRunner().invoke(command, ["show", GOOD]).output


@pytest.mark.parametrize(("sandbox", "code", "reach"), [("--sandbox", 0, False), ("--no-sandbox", 16, True)])
def test_a_run_that_can_read_the_key_says_so_and_is_not_confined(
    tmp_path: Path, sandbox: str, code: int, reach: bool
) -> None:
    need("bwrap")
    public = treadle("receipt", "keygen").stdout.strip()
    (tmp_path / "work").mkdir()
    sidecar = f"{sys.executable} {bad_sidecar.__file__} good"
    done = treadle("host", "run", "--task", "x", "--sidecar", sidecar, sandbox, "--json", cwd=tmp_path / "work")
    assert done.returncode == 0, done.stderr
    block = json.loads(done.stdout.splitlines()[-1])["usage_raw"]["treadle"]["signature"]
    assert block["run"]["key_in_reach"] is reach and block["run"]["start_tree"]
    verified = treadle("receipt", "verify", "latest", "--key", public, "--expect", "confined=yes")
    assert verified.returncode == code and ("key in reach" in verified.stdout) is reach
    assert ("the key in reach" in treadle("receipt", "show", "latest").stdout) is reach
