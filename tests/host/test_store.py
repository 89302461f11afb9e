"""A store of receipts: one for each run, and whoever touches them is found out."""

import json
import multiprocessing
import os
import re
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle.errors import NotFound, StorageError
from treadle.host.gate import TrustedKey, TrustedKeys
from treadle.host.signing import Signer, make_key
from treadle.host.store import ReceiptStore
from treadle.redact import Redactor
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.repair import read_receipt


def receipt(usage_raw: object = None) -> receipts.Receipt:
    return replace(
        SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=str(uuid.uuid4())), usage_raw=usage_raw or {"a": 1}
    )


@pytest.fixture
def store(tmp_path: Path) -> ReceiptStore:
    return ReceiptStore(str(tmp_path / "receipts"))


def added(store: ReceiptStore, made: receipts.Receipt) -> receipts.Receipt:
    """Of a run that was registered, so that the receipt is signed if the store has a key."""
    return store.add(made, store.register(made.meta.run_id, None, None, key_in_reach=False))


def fill(store: ReceiptStore, number: int = 4) -> list[str]:
    return [added(store, receipt()).meta.run_id for _ in range(number)]


def only(signer: Signer) -> TrustedKeys:
    return TrustedKeys(key=(TrustedKey(public=signer.public_key),))


def kinds(store: ReceiptStore, **more: object) -> set[tuple[str, str | None]]:
    return {(problem.kind, problem.run_id) for problem in store.check(**more)}  # type: ignore[arg-type]


def edit(store: ReceiptStore, run_id: str, change: object) -> None:
    path = Path(store.path(run_id))
    tree = json.loads(path.read_text())
    change(tree)  # type: ignore[operator]
    path.write_text(json.dumps(tree))


def test_each_receipt_holds_the_hash_of_the_one_before_it(store: ReceiptStore) -> None:
    first, second = store.add(receipt()), store.add(receipt())
    assert first.usage_raw["treadle"]["chain"] == {"sequence": 1, "previous_sha256": None}
    assert second.usage_raw["treadle"]["chain"]["previous_sha256"] == first.receipt_sha256
    assert store.get(second.meta.run_id) == second
    assert store.check() == []


def test_a_stock_verifier_accepts_the_hash(store: ReceiptStore) -> None:
    kept = store.add(receipt({"cost": 0.00001, "n": 2**70}))
    text = Path(store.path(kept.meta.run_id)).read_bytes()
    assert receipts.receipt_hash(receipts.normal(read_receipt(text, []))) == kept.receipt_sha256


def test_what_the_sidecar_put_in_usage_raw_stays(store: ReceiptStore) -> None:
    assert store.add(receipt({"prompt_tokens": 3})).usage_raw["prompt_tokens"] == 3
    assert store.add(receipt([1, 2])).usage_raw["claimed"] == [1, 2]


def test_a_run_has_one_receipt(store: ReceiptStore) -> None:
    one = receipt()
    store.add(one)
    with pytest.raises(StorageError, match="already"):
        store.add(one)


def test_an_edited_receipt_with_a_new_hash_is_found(store: ReceiptStore) -> None:
    ids = fill(store)

    def forge(tree: dict[str, object]) -> None:
        tree["outcome"] = "failed"
        forged = receipts.sealed(read_receipt(json.dumps(tree).encode(), []))
        tree["receipt_sha256"] = forged.receipt_sha256

    edit(store, ids[1], forge)
    assert kinds(store) == {("edited", ids[1])}


def chain(store: ReceiptStore) -> Path:
    return Path(store.directory) / "chain.jsonl"


def changed(line: str, **change: object) -> str:
    return json.dumps({**json.loads(line), **change}) + "\n"


TAMPERED: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "removed": (lambda lines: [lines[0], *lines[2:]], "2 comes after 1|missing from the chain|not follow"),
    "renumbered": (
        lambda lines: [lines[0], changed(lines[2], sequence=2, previous=json.loads(lines[0])["sha256"])],
        "",
    ),
    "reordered": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "missing from the chain"),
    "another number": (lambda lines: [*lines[:2], changed(lines[2], sequence=5)], "2 receipts before it are missing"),
    "a number twice": (lambda lines: [*lines[:2], changed(lines[2], sequence=2)], "number 2 comes after 2"),
    "another before": (lambda lines: [*lines[:2], changed(lines[2], previous="x")], "does not follow the one before"),
    "no JSON": (lambda lines: [*lines, "{broken}\n"], ""),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_chain_that_somebody_has_changed_is_found(store: ReceiptStore, how: str) -> None:
    fill(store)
    change, says = TAMPERED[how]
    chain(store).write_text("".join(change(chain(store).read_text().splitlines(keepends=True))))
    found = store.check()
    assert found and any(re.search(says, problem.message) for problem in found), found


def test_a_receipt_that_is_gone_or_was_put_there_is_found(store: ReceiptStore) -> None:
    ids = fill(store)
    os.unlink(store.path(ids[2]))
    strange = receipts.sealed(receipt())
    Path(store.path(strange.meta.run_id)).write_bytes(receipts.encode(strange))
    assert kinds(store) == {("removed", ids[2]), ("unlisted", strange.meta.run_id)}


def test_a_line_that_cannot_be_read_does_not_hide_the_rest(store: ReceiptStore) -> None:
    ids = fill(store)
    os.unlink(store.path(ids[3]))
    lines = chain(store).read_text().splitlines(keepends=True)
    chain(store).write_text("".join([lines[0], "nonsense\n", *lines[2:]]))
    assert {("unreadable", None), ("removed", ids[2]), ("removed", ids[3])} <= kinds(store)
    Path(store.path(ids[0])).write_text("[" * 200_000)
    assert ("unreadable", ids[0]) in kinds(store)


def test_a_cut_off_end_is_found_by_whoever_noted_the_last_hash(store: ReceiptStore) -> None:
    ids = fill(store)
    last = store.get(ids[-1]).receipt_sha256
    assert store.check(expect_last=last) == []
    os.unlink(store.path(ids[-1]))
    lines = chain(store).read_text().splitlines(keepends=True)
    chain(store).write_text("".join(lines[:-1]))
    assert store.check() == []
    assert kinds(store, expect_last=last) == {("removed", None)}


@pytest.mark.parametrize("moment", ["before the line", "after the line", "inside the line"])
def test_what_a_crash_interrupted_is_finished_by_the_next(store: ReceiptStore, moment: str) -> None:
    ids = fill(store, 2)
    lines = chain(store).read_text().splitlines(keepends=True)
    os.rename(store.path(ids[1]), Path(store.directory) / "pending.json")
    if moment != "after the line":
        chain(store).write_text(lines[0] + (lines[1][:30] if moment == "inside the line" else ""))
    third = store.add(receipt())
    assert store.check() == []
    assert [link.run_id for link in store.links()] == [*ids, third.meta.run_id]


def test_an_unsigned_receipt_is_not_vouched_for_by_the_signed_ones_after_it(tmp_path: Path) -> None:
    signer = make_key(str(tmp_path / "k"))
    before = fill(ReceiptStore(str(tmp_path / "receipts")))
    store = ReceiptStore(str(tmp_path / "receipts"), signer)
    fill(store, 1)
    assert kinds(store, trusted=only(signer)) == {("unsigned", run_id) for run_id in before}


def test_only_a_run_that_this_key_has_registered_is_signed_and_with_its_statements(tmp_path: Path) -> None:
    store = ReceiptStore(str(tmp_path), Signer(b"s" * 32))
    made = receipt()
    run = store.register(made.meta.run_id, None, None, key_in_reach=True)
    assert run is not None
    stranger = ReceiptStore(str(tmp_path), Signer(b"x" * 32)).register(made.meta.run_id, None, None, key_in_reach=True)
    for other in (None, stranger, replace(run, pid=1), replace(run, start_tree="b" * 40)):
        unsigned = receipt()
        unsigned = replace(unsigned, meta=replace(unsigned.meta, work_order_id=made.meta.work_order_id))
        kept = store.add(unsigned, other and replace(other, run_id=unsigned.meta.run_id))
        assert kept.usage_raw["treadle"]["signature"] is None
        assert not os.path.exists(store.statements_path(unsigned.meta.run_id))
    assert store.add(receipt(), run).usage_raw["treadle"]["signature"] is None, "it is about another run"
    elsewhere = receipt()
    begun = store.register(elsewhere.meta.run_id, None, "b" * 40, key_in_reach=True)
    assert store.add(elsewhere, begun).usage_raw["treadle"]["signature"] is None, "it began with other files"
    block = store.add(made, run).usage_raw["treadle"]["signature"]
    assert block["version"] == 2 and block["run"]["key_in_reach"] is True and block["run"]["pid"] == os.getpid()
    assert len(Path(store.statements_path(made.meta.run_id)).read_text().splitlines()) == 1


def test_a_chain_that_no_longer_has_what_was_seen_in_it_was_cut(tmp_path: Path) -> None:
    signer = Signer(b"s" * 32)
    store = ReceiptStore(str(tmp_path), signer)
    added(store, SAMPLE_RECEIPT)
    seen = only(signer)
    last = store.get(SAMPLE_RECEIPT.meta.run_id).receipt_sha256
    assert store.check(trusted=replace(seen, seen=last)) == []
    assert [one.kind for one in store.check(trusted=replace(seen, seen="0" * 64))] == ["removed"]


def test_an_id_cannot_lead_out_of_the_store(store: ReceiptStore) -> None:
    with pytest.raises(NotFound, match="'../../etc/passwd' is not the id of a run .ids look like 550e8400"):
        store.get("../../etc/passwd")
    other = str(uuid.uuid4())
    with pytest.raises(NotFound, match=f"there is no receipt {other}"):
        store.get(other)
    assert not store.has(other) and store.links() is not None and len(store) == 0 and store.check() == []
    Path(store.directory).mkdir()
    Path(store.path(other)).write_text("{")
    assert store.has(other)
    with pytest.raises(StorageError, match=f"{store.path(other)} is not a receipt"):
        store.get(other)


def test_a_store_has_a_place_of_its_own_and_another_has_the_same_key(state_home: Path, tmp_path: Path) -> None:
    signer = Signer(b"s" * 32)
    store = ReceiptStore(signer=signer)
    assert store.directory == str(state_home / "treadle" / "receipts")
    elsewhere = store.at(str(tmp_path / "other"))
    fill(elsewhere, 1)
    assert elsewhere.check(trusted=only(signer)) == [] and elsewhere.directory == str(tmp_path / "other")
    assert os.stat(elsewhere.directory).st_mode & 0o777 == 0o700


def _add_many(directory: str, number: int) -> None:
    fill(ReceiptStore(directory), number)


def test_many_writers_make_one_chain(store: ReceiptStore) -> None:
    workers = [
        multiprocessing.get_context("spawn").Process(target=_add_many, args=(store.directory, 10)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [link.sequence for link in store.links()] == list(range(1, 31))
    assert store.check() == []


def test_a_writer_that_is_killed_leaves_a_chain_that_can_be_continued(store: ReceiptStore) -> None:
    fill(store, 1)
    worker = multiprocessing.get_context("spawn").Process(target=_add_many, args=(store.directory, 100_000))
    worker.start()
    while sum(1 for _ in store.links()) < 20:
        pass
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    store.add(receipt())
    assert store.check() == []


def test_an_order_is_kept_without_its_secrets(store: ReceiptStore) -> None:
    order = replace(SAMPLE_ORDER, task="use hunter2hunter2", config=replace(SAMPLE_ORDER.config, env={"A": "plain"}))
    kept = json.loads(Path(store.keep_order(order, Redactor(["hunter2hunter2"]))).read_text())
    assert kept["id"] == order.id and kept["task"] == "use [redacted]" and kept["config"]["env"] == {"A": "[redacted]"}
    place = store.order_path(order.id)
    assert os.stat(place).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(place)).st_mode & 0o777 == 0o700
    assert place == store.keep_order(order, Redactor()) and "hunter2" in Path(place).read_text()
    with pytest.raises(NotFound, match="'../../etc/passwd' is not the id of an order"):
        store.order_path("../../etc/passwd")
