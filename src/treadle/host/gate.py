"""Whose signatures count, and the gate of a repository: what it asks of an agent's work before it comes onto a branch.

The gate is a file on the target branch, which a request cannot change. It pins the repository, the check, the agents,
the keys and the age; the base, the tree and whether the work has landed before follow from the history. All functions
that take a repository block.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from treadle.errors import ConfigError, NotFound
from treadle.host.signing import check_public_key, verify
from treadle.io.files import read, read_if_there
from treadle.io.paths import config_file
from treadle.policy import patterns
from treadle.receipts import expecting
from treadle.receipts.statement import key_id
from treadle.verification.evidence import GOOD
from treadle.verification.judge import settings_of
from treadle.wire.sidecar.receipts import LARGEST
from treadle.workspace.user_repository import UserRepository

# Whose signatures count: a file of public keys, described in docs/reference/receipts.md.


class TrustedKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public: str
    who: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def good_at(self, when: datetime) -> bool:
        return (self.since is None or self.since <= when) and (self.until is None or when < self.until)


class TrustedKeys(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: tuple[TrustedKey, ...] = ()
    seen: str | None = None

    def problem(self, public_key: str, finished_at: str) -> str | None:
        """Why a signature with this key does not count for a receipt of that time; None if it does."""
        known = [one for one in self.key if one.public == public_key]
        if not known:
            return "it is signed with another key"
        if not any(one.good_at(datetime.fromisoformat(finished_at)) for one in known):
            return f"the key of {known[0].who or 'its signer'} was not good at {finished_at}"
        return None

    def who(self, public_key: str) -> str | None:
        return next((one.who or one.public for one in self.key if one.public == public_key), None)

    def signer(self, data: bytes, signatures: list[tuple[str, str]]) -> TrustedKey | None:
        """The key with which one of these signatures was made, if it is one of ours."""
        for identity, signature in signatures:
            for one in self.key:
                if key_id(one.public) == identity and verify(one.public, signature, data):
                    return one
        return None


def default_path() -> str:
    return os.path.join(os.path.dirname(config_file()), "trusted-keys.toml")


def trusted_keys(key: str | None = None, path: str | None = None) -> TrustedKeys | None:
    """Those in `path`, else just `key`, else those of the person's own file; None when there is none."""
    if path is None and key is not None:
        check_public_key(key, "--key")
        return TrustedKeys(key=(TrustedKey(public=key),))
    place = path or default_path()
    data = read(place) if path is not None else read_if_there(place)
    if data is None:
        return None
    try:
        found = msgspec.convert(with_moments(tomllib.loads(data.decode())), TrustedKeys)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{place} is not a list of keys: {error}", hint="see docs/reference/receipts.md") from error
    check_keys(found.key, place)
    return found


def check_keys(keys: Iterable[TrustedKey], where: str) -> None:
    for one in keys:
        check_public_key(one.public, where)


def with_moments(tree: Any) -> Any:
    """With dates as the beginning of that day, and times without a zone in UTC."""
    if isinstance(tree, dict):
        return {name: with_moments(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [with_moments(value) for value in tree]
    if isinstance(tree, date) and not isinstance(tree, datetime):
        tree = datetime(tree.year, tree.month, tree.day)
    return tree.replace(tzinfo=UTC) if isinstance(tree, datetime) and tree.tzinfo is None else tree


# The gate of a repository.

PATH = ".treadle/receipt-gate.toml"
NOTES = "receipts"
"""The ref of git notes that has the receipt of a commit."""
FORMAT = 1
AHEAD = timedelta(minutes=5)
"""How much two clocks may differ."""


class ReceiptGate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    repository: str
    check: str
    days: int
    """How old a receipt may be."""
    key: tuple[TrustedKey, ...]
    agents: tuple[str, ...] | None = None
    """As observed; None: any."""
    evidence: tuple[str, ...] = tuple(sorted(GOOD))
    unchanged: tuple[str, ...] | None = None
    directory: str = "."
    """Where the check runs. In another directory the same command may be another check."""

    @property
    def keys(self) -> TrustedKeys:
        return TrustedKeys(key=self.key)

    def expected(self, tree: str, base: str, setup: str = "") -> dict[str, str]:
        """As words of `receipt verify --expect`. `setup` is the base's: another could replace what the check runs."""
        made = {"repo": self.repository, "base": base, "outcome": "complete", "confined": "yes", "verified": "yes"}
        made |= {"check": self.check, "directory": self.directory, "evidence": "|".join(self.evidence), "tree": tree}
        made |= {"setup": setup or "none", "may_change": "none"}
        made |= {"agent": "|".join(self.agents)} if self.agents is not None else {}
        return made | ({"unchanged": "|".join(self.unchanged)} if self.unchanged is not None else {})


def parse(data: bytes, where: str) -> ReceiptGate:
    """Raises ConfigError for what is not understood to the letter: a gate that expects nothing lets all pass."""
    hint = "treadle receipt gate init writes one"
    try:
        gate = msgspec.convert(with_moments(tomllib.loads(data.decode())), ReceiptGate)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{where} is not a gate: {error}", hint=hint) from error
    if gate.format != FORMAT or gate.days < 1:
        raise ConfigError(f"{where} is not a gate: format {gate.format}, days {gate.days}", hint=hint)
    for name in ("key", "agents", "evidence", "unchanged"):
        if getattr(gate, name) == ():
            raise ConfigError(f"{where}: {name} is an empty list, which no run can meet", hint=hint)
    check_keys(gate.key, where)
    expecting.known(gate.expected("0" * 40, "0" * 40))
    return gate


def read_from(user: UserRepository, target: str) -> ReceiptGate:
    """The gate of a branch, as it is committed there."""
    done = user.run("cat-file", "blob", f"{target}:{PATH}", check=False)
    if done.code != 0:
        raise NotFound(f"{target} has no {PATH}", hint="treadle receipt gate init writes it; commit it to that branch")
    gate = parse(done.stdout, f"{PATH} of {target}")
    listed = user.run("ls-tree", "-r", "-z", "--name-only", target).stdout.decode("utf-8", "replace").split("\0")
    for pattern in gate.unchanged or ():
        if not any(patterns.match(one, f"/{path}") for one in expecting.covering(pattern) for path in listed if path):
            raise ConfigError(f"{PATH} of {target}: unchanged: {pattern!r} matches no file there")
    return gate


def note_of(user: UserRepository, commit: str) -> bytes:
    """The receipt that is attached to a commit."""
    note = user.note(NOTES, commit, LARGEST)
    if note is None:
        hint = f"git fetch origin refs/notes/{NOTES}:refs/notes/{NOTES}"
        raise NotFound(f"{commit[:12]} has no receipt in the git notes {NOTES!r}", hint=hint)
    return note


def expected_of(user: UserRepository, gate: ReceiptGate, target: str, commit: str) -> dict[str, str]:
    """What the gate expects of the receipt of this commit, which is requested into the target."""
    tree = user.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").stdout.decode().strip()
    base = user.run("merge-base", target, commit, check=False).stdout.decode().strip()
    if not base:
        raise ConfigError(f"{commit[:12]} and {target} have no common commit")
    place = os.path.normpath(os.path.join(gate.directory, ".treadle/config.toml"))
    settings = user.run("cat-file", "blob", f"{base}:{place}", check=False).stdout
    return gate.expected(tree, base, settings_of(settings.decode("utf-8", "replace")).setup)


def brought_in(user: UserRepository, target: str, commit: str, facts: Mapping[str, str]) -> Iterator[str]:
    """Merges in the request that the run did not make: they bring commits onto the branch that no one checked."""
    made = facts.get("commit", "")
    known = made and user.run("cat-file", "-e", f"{made}^{{commit}}", check=False).code == 0
    range_ = [commit, f"^{target}", *([f"^{made}"] if known else [])]
    for merge in user.run("rev-list", "--min-parents=2", "--end-of-options", *range_).stdout.decode().split()[:1]:
        yield f"commits: {merge[:12]} is a merge that the run did not make"


def gate_changes(user: UserRepository, base: str, commit: str) -> Iterator[str]:
    """The gate itself in the request: the next request would be judged by what this one wrote."""
    if user.run("diff-tree", "-r", "--name-only", "--no-renames", base, commit, "--", PATH).stdout:
        yield f"unchanged: the request changes {PATH}, which a person has to bring onto the branch"


def used_before(user: UserRepository, target: str, facts: Mapping[str, str]) -> Iterator[str]:
    """Whether this work is on the target already, now or before: then the receipt is replayed."""
    made, tree, base = facts.get("commit"), facts.get("tree"), facts.get("base", "")
    known = made is not None and user.run("cat-file", "-e", f"{made}^{{commit}}", check=False).code == 0
    if made is not None and known and user.run("merge-base", "--is-ancestor", made, target, check=False).code == 0:
        yield f"replayed: {made[:12]}, which the run made, is on the target already"
        return
    since = user.run("log", "--format=%H %T", f"{base}..{target}", check=False).stdout.decode().split("\n")
    for commit, _, of in (line.partition(" ") for line in since):
        if tree is not None and of == tree:
            yield f"replayed: the target had this tree before, in {commit[:12]}"
            return
    landed = _patch_ids(user, "log", "--first-parent", "-m", "--format=%H", f"{base}..{target}")
    for patch in _patch_ids(user, "diff-tree", base, tree) if tree is not None else ():
        if patch in landed:
            yield f"replayed: the target had this change before, in {landed[patch][:12]}"


def _patch_ids(user: UserRepository, command: str, *arguments: str) -> dict[str, str]:
    """The commits by what they change, which has the same id whatever it was applied to."""
    plain = ("-p", "--binary", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv")
    patches = user.run(command, *plain, *arguments, check=False).stdout
    words = user.run("patch-id", "--stable", stdin=patches, check=False).stdout.decode().split()
    return dict(zip(words[::2], words[1::2], strict=False))


def too_old(gate: ReceiptGate, finished_at: str, now: datetime | None = None) -> Iterator[str]:
    age = (now or datetime.now(UTC)) - datetime.fromisoformat(finished_at)
    if age > timedelta(days=gate.days):
        yield f"age: at most {gate.days} days are expected, and it ended at {finished_at}"
    elif age < -AHEAD:
        yield f"age: it ended at {finished_at}, which is to come"


def written(gate: ReceiptGate) -> str:
    """As a file."""

    def text(value: Any) -> str:
        return msgspec.json.encode(value).decode()

    lines = [
        "# What an agent's receipt must state before its work comes onto this branch: treadle receipt gate check",
        f"format = {gate.format}",
        f"repository = {text(gate.repository)}",
        f"check = {text(gate.check)}",
        f"days = {gate.days}",
    ]
    lines += [f"agents = {text(gate.agents)}"] if gate.agents is not None else []
    lines += [f"directory = {text(gate.directory)}"] if gate.directory != "." else []
    lines += [f"unchanged = {text(gate.unchanged)}"] if gate.unchanged is not None else []
    for one in gate.key:
        lines += ["", "[[key]]", f"public = {text(one.public)}"]
    return "\n".join(lines) + "\n"
