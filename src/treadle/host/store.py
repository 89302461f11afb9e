"""Receipts on disk, each linked to the one before it, so that removing, moving or editing one is detected; and as rows
of a list.

    receipts/chain.jsonl      one line for each receipt: sequence, run_id, sha256, previous
    receipts/<run_id>.json    the receipt; its place in the chain is in usage_raw.treadle.chain
    receipts/<run_id>.intoto.jsonl   if it is signed: its statements in signed envelopes, one per line
    receipts/pending.json     one that was being added when power failed: the next addition finishes it

A run has one receipt: a second one for the same run is refused. `usage_raw` is hashed like everything else, so the link
cannot be changed without changing the hash, and any other verifier of the contract accepts it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from treadle.errors import NotFound, StorageError, TreadleError
from treadle.host.evidence import keep_of
from treadle.host.gate import TrustedKeys
from treadle.host.signing import RunRegistration, Signer, verify
from treadle.io import files
from treadle.io.files import sha256
from treadle.io.paths import private_dir, state_dir
from treadle.receipts.statement import envelope, statements
from treadle.receipts.trace import ours, with_observed
from treadle.redact import MARK, Redactor
from treadle.wire.common.jsontext import repaired
from treadle.wire.common.records import Record
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import WorkOrder
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import Deviation, read_receipt

FORMAT = 1
SIGNATURE = 2
"""The version of the signature of a receipt. What is signed is the canonical text with `value` null."""
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ChainLink(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    sequence: int
    run_id: str
    sha256: str
    previous: str | None


LINK = Record(ChainLink, format=FORMAT)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that cannot occur in a store unless someone tampered with it."""

    kind: str
    """edited, removed, reordered, unlisted, unsigned, bad_signature, unreadable, torn."""
    run_id: str | None
    message: str


def default_directory() -> str:
    return os.path.join(state_dir(), "receipts")


class ReceiptStore:
    def __init__(self, directory: str | None = None, signer: Signer | None = None) -> None:
        self.directory = directory or default_directory()
        self.signer = signer
        self._chain = os.path.join(self.directory, "chain.jsonl")
        self._pending = os.path.join(self.directory, "pending.json")

    def at(self, directory: str) -> ReceiptStore:
        """The store in another place, with the same key."""
        return ReceiptStore(directory, self.signer)

    def _lock(self) -> files.locked:
        private_dir(self.directory)
        return files.locked(os.path.join(self.directory, "lock"), 60.0)

    def path(self, run_id: str) -> str:
        if not _RUN_ID.fullmatch(run_id):
            raise NotFound(f"{run_id!r} is not the id of a run", hint="ids look like 550e8400-e29b-41d4-...")
        return os.path.join(self.directory, f"{run_id}.json")

    def order_path(self, work_order_id: str) -> str:
        """Where the order of that id is kept; a receipt names it in `meta.work_order_id`."""
        if not _RUN_ID.fullmatch(work_order_id):
            raise NotFound(f"{work_order_id!r} is not the id of an order")
        return os.path.join(self.directory, "orders", f"{work_order_id}.json")

    def keep_order(self, order: WorkOrder, redactor: Redactor) -> str:
        """Keep the order, without secrets, under its id; an order is not kept twice. Returns the path."""
        path = self.order_path(receipts.normal_uuid(order.id))
        tree = redactor.tree(repaired(msgspec.to_builtins(order)))
        tree["id"] = order.id
        # The values of variables are private, even where the name does not look like a secret.
        tree["config"]["env"] = dict.fromkeys(order.config.env, MARK)
        private_dir(os.path.dirname(path))
        files.write_atomic(path, msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n")
        return path

    def register(
        self, run_id: str, order_path: str | None, start_tree: str | None, *, key_in_reach: bool
    ) -> RunRegistration | None:
        """Register a run before its agent starts, so that its receipt can be signed. None when there is no key."""
        if self.signer is None:
            return None
        return self.signer.register(
            RunRegistration(
                run_id=run_id,
                order_sha256=sha256(order_path) if order_path is not None else None,
                start_tree=start_tree,
                pid=os.getpid(),
                started=time.time(),
                key_in_reach=key_in_reach,
            )
        )

    def add(self, receipt: Receipt, run: RunRegistration | None = None) -> Receipt:
        """Add a receipt: link it into the chain, sign it if its run is registered, hash and store it. Returns it as
        stored.

        Three steps: the whole receipt is written as the pending one, the chain names it, and it gets its own name.
        After a crash between any two, the next addition does what is missing, so no link is without its receipt. Its
        statements are written before that, and again with the receipt if that is made anew.
        """
        with self._lock():
            last = self._finish_pending()
            path = self.path(receipt.meta.run_id)
            if os.path.exists(path):
                raise StorageError(f"the run {receipt.meta.run_id} has a receipt already", hint=f"it is {path}")
            done, envelopes = self._signed(receipt, last, run)
            if envelopes:
                files.write_atomic(self.statements_path(receipt.meta.run_id), envelopes)
            files.write_atomic(self._pending, _pretty(done))
            self._append(last, done)
            files.rename(self._pending, path)
            with contextlib.suppress(StorageError):  # what it says stands in the receipt, which is stored
                keep_of(done, self.signer if ours(done)["signature"] else None)
        return done

    def _signer_for(self, receipt: Receipt, run: RunRegistration | None) -> Signer | None:
        """The key, if it has promised to sign the receipt of this run."""
        if self.signer is None or run is None or not self.signer.has_registered(run):
            return None
        start = (ours(receipt).get("workspace") or {}).get("start_tree")
        return self.signer if run.run_id == receipt.meta.run_id and run.start_tree == start else None

    def _linked(
        self, receipt: Receipt, last: ChainLink | None, signer: Signer | None, run: RunRegistration | None
    ) -> Receipt:
        raw = receipt.usage_raw if isinstance(receipt.usage_raw, dict) else {"claimed": receipt.usage_raw}
        more = dict(raw.get("treadle") or {})
        more["chain"] = {"sequence": last.sequence + 1 if last else 1, "previous_sha256": last.sha256 if last else None}
        more["signature"] = None
        if signer is not None and run is not None:
            about = {"algorithm": signer.algorithm, "public_key": signer.public_key, "run": run.stated()}
            more["signature"] = {"version": SIGNATURE, **about, "value": None}
        made = receipts.normal(replace(receipt, usage_raw={**raw, "treadle": more}, receipt_sha256=None))
        if signer is not None:
            made.usage_raw["treadle"]["signature"]["value"] = signer.sign(receipts.canonical(made))
        return receipts.sealed(made)

    def statements_path(self, run_id: str) -> str:
        return self.path(run_id).removesuffix(".json") + ".intoto.jsonl"

    def _signed(self, receipt: Receipt, last: ChainLink | None, run: RunRegistration | None) -> tuple[Receipt, bytes]:
        """Linked, with its statements. If the key cannot be used any more, it is stored without a signature, and says
        why."""
        signer = self._signer_for(receipt, run)
        if signer is None:
            return self._linked(receipt, last, None, None), b""
        try:
            done = self._linked(receipt, last, signer, run)
            made = [envelope(one, signer.sign, signer.public_key) for one in statements(done).values()]
        except TreadleError as error:
            notes = [*(ours(receipt).get("notes") or []), {"where": "signature", "problem": str(error), "value": None}]
            return self._linked(with_observed(receipt, notes=notes), last, None, None), b""
        return done, b"".join(msgspec.json.encode(one) + b"\n" for one in made)

    def _append(self, last: ChainLink | None, receipt: Receipt) -> None:
        link = ChainLink(
            sequence=last.sequence + 1 if last else 1,
            run_id=receipt.meta.run_id,
            sha256=receipt.receipt_sha256 or "",
            previous=last.sha256 if last else None,
        )
        files.append_line(self._chain, msgspec.json.encode(link), sync=True)

    def _finish_pending(self) -> ChainLink | None:
        """The last link, after finishing what a crash interrupted."""
        last = self._last()
        if not os.path.exists(self._pending):
            return last
        receipt = self._read(self._pending)
        if last is None or last.run_id != receipt.meta.run_id:
            self._append(last, receipt)
        files.rename(self._pending, self.path(receipt.meta.run_id))
        return self._finish_pending()

    def __len__(self) -> int:
        return sum(1 for _ in files.iter_lines(self._chain))

    def links(self) -> Iterator[ChainLink]:
        for line in files.iter_lines(self._chain):
            yield self._link(line)

    def _link(self, line: bytes) -> ChainLink:
        return LINK.read(line, f"a line of {self._chain}")

    def _last(self) -> ChainLink | None:
        """The last link, without reading all of them: there may be many. A torn last line is cut off."""
        try:
            with files.changing(self._chain) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
                *lines, torn = file.read().split(b"\n")
                if torn:
                    file.truncate(file.tell() - len(torn))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise files.storage_error(error, self._chain, "read") from error
        return self._link(lines[-1]) if lines else None

    def get(self, run_id: str) -> Receipt:
        return self._read(self.path(run_id))

    def has(self, run_id: str) -> bool:
        return os.path.exists(self.path(run_id))

    def _read(self, path: str) -> Receipt:
        if not os.path.exists(path):
            raise NotFound(f"there is no receipt {os.path.basename(path).removesuffix('.json')}")
        try:
            return read_receipt(files.read(path, receipts.LARGEST), [])
        except msgspec.MsgspecError as error:
            raise StorageError(f"{path} is not a receipt: {error}") from error

    # Checking for tampering...

    def check(self, *, trusted: TrustedKeys | None = None, expect_last: str | None = None) -> list[Problem]:
        """Every sign that a receipt was removed, moved or edited; with keys, also those that none of them signed."""
        problems: list[Problem] = []
        links: list[ChainLink] = []
        for line in (lines := files.iter_lines(self._chain)):
            try:
                link = self._link(line)
            except StorageError as error:
                problems.append(Problem(kind="unreadable", run_id=None, message=str(error)))
                continue
            found = [*_misplaced(link, links[-1] if links else None), *self._check_one(link, trusted)]
            problems += found
            links.append(link)
        if lines.torn:
            text = f"the last line is torn after {len(lines.torn)} bytes; the next run cuts it off"
            problems.append(Problem(kind="torn", run_id=None, message=text))
        last = links[-1].sha256 if links else None
        if expect_last is not None and last != expect_last:
            problems.append(Problem(kind="removed", run_id=None, message=f"the last receipt is {last or 'nothing'}"))
        if trusted is not None and trusted.seen is not None and trusted.seen not in {link.sha256 for link in links}:
            problems.append(Problem(kind="removed", run_id=None, message=f"the receipt {trusted.seen} is not in it"))
        return [*problems, *self._unlisted({link.run_id for link in links})]

    def _unlisted(self, listed: set[str]) -> list[Problem]:
        names = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        ids = [name.removesuffix(".json") for name in names]
        return [
            Problem(kind="unlisted", run_id=run_id, message="it is not in the chain")
            for run_id in ids
            if _RUN_ID.fullmatch(run_id) and run_id not in listed
        ]

    def _check_one(self, link: ChainLink, trusted: TrustedKeys | None) -> list[Problem]:
        def problem(kind: str, message: str) -> list[Problem]:
            return [Problem(kind=kind, run_id=link.run_id, message=message)]

        try:
            if not os.path.exists(path := self.path(link.run_id)):
                return problem("removed", f"receipt {link.sequence} is gone")
            receipt, refused, left_out = read_strictly(files.read(path, receipts.LARGEST))
        except (ValueError, TreadleError) as error:
            return problem("unreadable", str(error))
        if refused or left_out:
            return problem("edited", f"it is not as it was written: {[*refused, *left_out][0]}")
        if receipts.receipt_hash(receipt) != link.sha256 or receipt.receipt_sha256 != link.sha256:
            return problem("edited", "the hash of its content differs from the one in the chain")
        chain = _chain_of(receipt)
        if chain != {"sequence": link.sequence, "previous_sha256": link.previous}:
            return problem("reordered", f"it is not number {link.sequence} by its own word, but {_place(chain)}")
        return [
            Problem(kind=kind, run_id=link.run_id, message=message)
            for kind, message in signature_problems(receipt, trusted)
        ]


def _misplaced(link: ChainLink, previous: ChainLink | None) -> list[Problem]:
    expected = previous.sequence + 1 if previous else 1
    if link.sequence > expected:
        text = f"{link.sequence - expected} receipts before it are missing from the chain"
        return [Problem(kind="removed", run_id=link.run_id, message=text)]
    if link.sequence < expected:
        text = f"number {link.sequence} comes after {expected - 1}"
        return [Problem(kind="reordered", run_id=link.run_id, message=text)]
    if link.previous != (previous.sha256 if previous else None):
        return [Problem(kind="reordered", run_id=link.run_id, message="it does not follow the one before it")]
    return []


def _place(chain: object) -> str:
    return f"number {chain.get('sequence')}" if isinstance(chain, dict) else "in no chain"


def _chain_of(receipt: Receipt) -> object:
    return ours(receipt).get("chain")


class ReadReceipt(NamedTuple):
    receipt: Receipt
    """In normal form."""
    refused: list[str]
    """What of the file is not in it, or is not as it is there."""
    left_out: list[str]
    """What the contract does not know, in a receipt that is not signed; the contract has readers leave it out."""


def read_strictly(data: bytes) -> ReadReceipt:
    """A receipt to be verified: nothing is put right. Raises ValueError for what is no receipt."""
    notes: list[Deviation] = []
    found = receipts.normal(read_receipt(data, notes))
    if signature_of(found) is None:
        unknown = [note for note in notes if note.problem == "not in the contract"]
        return ReadReceipt(found, [str(note) for note in notes if note not in unknown], [*map(str, unknown)])
    written, made = msgspec.json.decode(data), msgspec.json.decode(receipts.encode(found))
    changed = [name for name in made if name not in written or written[name] != made[name]] if not notes else []
    return ReadReceipt(
        found, [*map(str, notes), *(f"{name}: not in the form in which it is signed" for name in changed)], []
    )


def signature_of(receipt: Receipt) -> dict[str, Any] | None:
    signature = ours(receipt).get("signature")
    return signature if isinstance(signature, dict) else None


def signature_problems(receipt: Receipt, trusted: TrustedKeys | None = None) -> list[tuple[str, str]]:
    """What is wrong with the signature of a receipt in normal form; where no keys are trusted, none is required."""
    signature = signature_of(receipt)
    if signature is None:
        return [("unsigned", "it has no signature")] if trusted is not None else []
    key, value = str(signature.get("public_key")), str(signature.get("value"))
    why = trusted.problem(key, receipt.meta.finished_at) if trusted is not None else None
    if why is not None:
        return [("bad_signature", why)]
    # Version 1 has no number, and does not cover its own words: it has these, and no other.
    first = {"algorithm": Signer.algorithm, "public_key": key, "value": value}
    if signature.get("version") not in (None, SIGNATURE) or ("version" not in signature and signature != first):
        return [("bad_signature", "its signature is of no version that is known")]
    unsigned = {**signature, "value": None} if "version" in signature else None
    raw = {**receipt.usage_raw, "treadle": {**receipt.usage_raw["treadle"], "signature": unsigned}}
    if not verify(key, value, receipts.canonical(replace(receipt, usage_raw=raw))):
        return [("bad_signature", "its signature does not match its content")]
    return []


def _pretty(receipt: Receipt) -> bytes:
    """Indented, unless it is huge: what a sidecar nests deep would be many times as long, and too large to be read."""
    text = receipts.encode(receipt)
    return (msgspec.json.format(text, indent=2) if len(text) < receipts.LARGEST // 16 else text) + b"\n"


# Receipts as rows of a list.


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """If the receipt cannot be read, `outcome` is `?` and `backend` says why."""

    sequence: int
    run_id: str
    outcome: str
    backend: str
    started_at: str
    sha256: str
    agent: str | None = None
    task: str | None = None
    source: str | None = None


def row_of(store: ReceiptStore, link: ChainLink) -> ListedRun:
    try:
        found = store.get(link.run_id)
    except TreadleError as error:
        return ListedRun(
            sequence=link.sequence,
            run_id=link.run_id,
            outcome="?",
            backend=str(error),
            started_at="",
            sha256=link.sha256,
        )
    more = ours(found)
    order, place = more.get("order") or {}, more.get("workspace") or {}
    return ListedRun(
        sequence=link.sequence,
        run_id=link.run_id,
        outcome=found.outcome,
        backend=found.backend.id,
        started_at=found.meta.started_at,
        sha256=link.sha256,
        agent=order.get("agent"),
        task=order.get("task"),
        source=place.get("source"),
    )
