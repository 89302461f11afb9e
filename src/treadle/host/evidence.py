"""Evidence on disk: what a check showed of some work, by base, tree and command, signed by the machine that ran it.

    evidence/ID.json        ID follows from the three: a receipt or a commit can name it before the check has run

A record names the hashes of the receipts of the work. Its text has no secrets that are known. The newest are kept.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from treadle.errors import NotFound, TreadleError
from treadle.host.signing import Signer, load_signer, verify
from treadle.io.files import try_remove
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord
from treadle.receipts.evidence import evidence_of
from treadle.receipts.trace import Check, ours
from treadle.redact import Redactor
from treadle.verification.evidence import CheckEvidence
from treadle.wire.sidecar.receipts import Receipt

FORMAT = 1
MOST = 2000
"""So many are kept; a fiftieth more before the oldest go, so that not every addition looks for them."""
ID = re.compile(r"[0-9a-f]{32}")


class EvidenceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    id: str
    evidence: CheckEvidence
    output: str = ""
    """The end of what the check printed."""
    receipts: tuple[str, ...] = ()
    """The hashes of the receipts of what was checked."""
    at: float
    public_key: str = ""
    signature: str = ""

    def signed(self) -> bytes:
        return b"treadle evidence 1\n" + msgspec.json.encode(replace(self, signature=""), order="sorted")

    @property
    def standing(self) -> str:
        """Whose word it is."""
        if not self.signature:
            return "not signed"
        good = verify(self.public_key, self.signature, self.signed())
        return f"signed with {self.public_key}" if good else "ALTERED: its signature does not fit"


EVIDENCE = FileRecord(EvidenceRecord, format=FORMAT, pretty=True, sync=False)


def _directory() -> str:
    return os.path.join(state_dir(), "evidence")


def keep(found: CheckEvidence, output: str, receipts: Iterable[str], signer: Signer | None) -> EvidenceRecord:
    """Store what a check showed; a later one of the same takes its place. Blocks."""
    made = EvidenceRecord(
        id=found.id,
        evidence=found,
        output=output,
        receipts=tuple(receipts),
        at=time.time(),
        public_key=signer.public_key if signer is not None else "",
    )
    try:
        made = replace(made, signature=signer.sign(made.signed())) if signer is not None else made
    except TreadleError:  # an ssh agent that is asked each time, and now said no
        made = replace(made, public_key="")
    EVIDENCE.save(os.path.join(private_dir(_directory()), f"{made.id}.json"), made)
    if len(os.listdir(_directory())) > MOST + MOST // 50:
        for _, path in sorted(aged(), reverse=True)[MOST:]:
            try_remove(path)
    return made


def keep_check(check: Check, receipts: Iterable[str] = ()) -> EvidenceRecord | None:
    """The same for a check that this machine ran outside of a run. Blocks."""
    if not check.evidence:
        return None
    output = Redactor.of_environment(os.environ).text(check.output_tail)
    return keep(check.evidence, output, receipts, load_signer())


def keep_of(receipt: Receipt, signer: Signer | None) -> EvidenceRecord | None:
    """The same for what a receipt says, whose text has no secrets any more. Blocks."""
    if (found := evidence_of(receipt)) is None:
        return None
    check = (ours(receipt).get("observed") or {}).get("check") or {}
    return keep(found, check.get("output_tail") or "", filter(None, [receipt.receipt_sha256]), signer)


def load(name: str) -> EvidenceRecord:
    """One by its id. Raises NotFound also for one that is damaged or about something else than its name says."""
    found = EVIDENCE.load_whole(os.path.join(_directory(), f"{name}.json")) if ID.fullmatch(name) else None
    if found is None or not name == found.id == found.evidence.id:
        raise NotFound(f"there is no evidence {name} on this machine")
    return found


def word_of(receipt: Receipt) -> str:
    """The word for the work of a receipt: that of the record on this machine, where it is worse than what the receipt
    says. What was planted after the run may have gone unnoticed."""
    stated = evidence_of(receipt)
    try:
        known = load(stated.id).evidence if stated is not None else None
    except NotFound:
        known = None
    worse = known is not None and stated is not None and stated.good and not known.good
    return known.word if known is not None and worse else stated.word if stated is not None else ""


def aged() -> Iterator[tuple[float, str]]:
    """When each record was stored, and its file."""
    if os.path.isdir(_directory()):
        for entry in os.scandir(_directory()):
            yield entry.stat().st_mtime, entry.path
