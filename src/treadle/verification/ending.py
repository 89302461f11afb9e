"""What is known about a turn that says it is done: verified, unverified or contradicted, and why."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from treadle.verification.evidence import GOOD, CheckEvidence, Counts

EndingState: TypeAlias = Literal["verified", "unverified", "contradicted"]
"""verified: files were changed, and the project's check passes on them by tests that the turn did not write.
contradicted: the check fails, and the turn says or implies that it does not. unverified: all else; `why` says why."""
NOTHING = "nothing was checked: "
"""How the reason begins where the turn seems to have changed and claimed nothing."""
# Only decides whether the check runs where no file was changed, and how a failure is called: no word makes it green. A
# claim is in a clause that does not deny it before.
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:but|however|although)\b", re.I)
_DENIAL = re.compile(r"\b(?:not?|none|nothing|never|neither|nor|cannot|unable|fail(?:s|ed)? to|\w+n['\u2019]t)\b", re.I)
_CLAIM = re.compile(
    r"\b(?:fixed|fixes|done|completed?|finished|implemented|resolved|solved|corrected|repaired|works?|working|succe\w+"
    r"|pass(?:es|ed|ing)?|green|verified)\b",
    re.I,
)


class CheckedEnding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn ended, as far as it was checked."""

    state: EndingState
    why: str
    """One clause."""
    check: str = ""
    """The command that was run, or would be."""
    word: str = ""
    """That of the evidence, where the command was run."""
    denied: tuple[str, ...] = ()
    """What the turn wanted to change and was not allowed to."""
    evidence: CheckEvidence | None = None

    @property
    def matters(self) -> bool:
        """Whether a person should read it: there is a check, or work was done, claimed or denied."""
        return not self.why.startswith(NOTHING) or bool(self.denied)

    @property
    def doubtful(self) -> bool:
        """Whether the check was run and does not support what was done."""
        return bool(self.word) and self.word not in GOOD

    @property
    def line(self) -> str:
        more = f"; not allowed: {'; '.join(self.denied)}" if self.denied else ""
        return f"{self.state}: {self.why}{more}"


def claims_success(text: str) -> bool:
    """Whether a clause of it says that something is done or works, and does not deny it."""
    for clause in _CLAUSE.split(text):
        if (found := _CLAIM.search(clause)) and not _DENIAL.search(clause, 0, found.start()):
            return True
    return False


def ending_of(
    check: str, evidence: CheckEvidence, *, changed: bool, claims: bool, denied: Sequence[str] = ()
) -> CheckedEnding:
    """The ending of work whose check was run."""
    by = {each.corner: each for each in evidence.corners}
    base, counts = by.get("base"), by["old judge"].counts
    broken = base is not None and base.ended == "red"
    state: EndingState = "unverified"
    if evidence.word == "failed" and by["old judge"].ended == "red":
        why = f"`{check}` fails" + (f" ({counts.failed} of {counts.ran} tests)" if counts and counts.failed else "")
        why += ", as it did before" if broken else " with the changes"
        if counts is not None and counts.ran == 0:
            why += ", and no test ran"
        elif (changed or claims) if not broken else claims and _no_better(counts, base.counts if base else None):
            state = "contradicted"
        elif counts is None:  # perhaps it cannot be run here at all
            why += ", and no runner says how many tests ran"
    elif not changed:
        why = f"no file was changed; `{check}` passes, as it did before"
    else:
        why = f"`{check}`: {evidence.why}"
        if evidence.word == "failed":
            state = "contradicted"
        elif evidence.good and not denied:
            state = "verified"
    return CheckedEnding(state=state, why=why, check=check, word=evidence.word, denied=tuple(denied), evidence=evidence)


def _no_better(now: Counts | None, before: Counts | None) -> bool:
    """Whether tests fail, and as many as before: a check that fails without one may be unable to run here."""
    return now is not None and before is not None and now.failed >= max(before.failed, 1)
