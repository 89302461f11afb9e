"""`treadle receipt verify`: is it what it says, did the right person sign it, and is it what someone expects?"""

import base64
import os
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from treadle.cli.as_json import json_option, show_json
from treadle.cli.receipt_files import find_path, open_store, store_option
from treadle.cli.render import printable
from treadle.errors import ConfigError, NotFound
from treadle.host.signing import load_signer
from treadle.host.store import ReceiptStore, signature_problems
from treadle.host.trusted_keys import TrustedKey, TrustedKeys, trusted_keys
from treadle.io.files import write_atomic
from treadle.io.reading import read
from treadle.receipts import expecting
from treadle.receipts.statement import PREDICATE, PROVENANCE, ours, unwrapped
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.lines import repeated_name
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import Deviation, read_receipt


class ReceiptCheck(msgspec.Struct, kw_only=True):
    """What was checked of one file, and what is wrong with it."""

    checked: str
    checks: dict[str, list[str]] = {}
    """By what was looked at: the problems found, in words."""
    notes: list[str] = []
    facts: dict[str, str] = {}
    signed_by: str | None = None

    def add(self, name: str, *problems: str) -> None:
        self.checks.setdefault(name, []).extend(problems)

    @property
    def exit_code(self) -> int:
        """That of the first thing that is wrong: the content, the signature, then what was expected."""
        codes = {"content": expecting.INVALID, "signature": expecting.UNSIGNED, **expecting.EXIT_CODES}
        return next((code for name, code in codes.items() if self.checks.get(name)), 0)


@click.command("verify")
@click.argument("file", required=False)
@click.option("--chain", is_flag=True, help="Check every receipt of the store, and their order.")
@click.option("--key", metavar="PUBLIC", help="Require a signature with this key (treadle receipt key).")
@click.option("--trusted", metavar="FILE", help="Require a signature with one of these keys. Default: yours, if any.")
@click.option("--expect-last", metavar="SHA256", help="With --chain: the hash that the last receipt must have.")
@click.option("--expect", multiple=True, metavar="NAME=VALUE,...", help="What the receipt must state. Again for more.")
@click.option("--policy", metavar="FILE", help="The same, as a TOML file: confined = true.")
@click.option("--junit", metavar="FILE", help="Also write a report there that CI systems show.")
@click.option("--as-abp", is_flag=True, help="Read decimals as the first implementation does: see the reference.")
@store_option
@json_option
def verify(
    file: str | None,
    chain: bool,
    key: str | None,
    trusted: str | None,
    expect_last: str | None,
    expect: tuple[str, ...],
    policy: str | None,
    junit: str | None,
    as_abp: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Check a receipt, or what `receipt export` wrote of it; with --chain, all that are kept.

    \b
    treadle receipt verify latest --expect confined=yes,verified=yes,differences=none
    treadle receipt verify run.intoto.jsonl --trusted keys.toml --policy gate.toml --junit report.xml

    Exits with 0, or with a code for what is wrong: 1 it is not as it was made, 2 the command was not understood,
    10 no trusted person has signed it, 11 repo, 12 base, 13 agent, 14 model, 15 outcome, 16 confined, sealed or
    network, 17 policy or enforced, 18 verified, 19 differences, 20 tree or commit, 21 unchanged. Of several, the
    first.
    """
    if chain == bool(file):
        raise click.UsageError("give either a FILE or --chain")
    if chain and (expect or policy):
        raise click.UsageError("--expect and --policy are about one FILE")
    if expect_last and not chain:
        raise click.UsageError("--expect-last is for --chain")
    if key and trusted:
        raise click.UsageError("give either --key or --trusted")
    keys = trusted_keys(key, trusted)
    wanted = expecting.known({**_policy(policy), **expecting.parse(expect)})
    stored = open_store(store)
    if file is None:
        made = _verify_chain(stored, keys, expect_last)
    else:
        made = _verify_file(find_path(file, stored), file, keys, as_abp)
        for name, value in wanted.items():
            problem = expecting.unmet(name, value, made.facts)
            made.add(name, *([problem] if problem else []))
    if junit:
        write_atomic(junit, _junit(made), 0o644)
    _show(made, as_json)
    sys.exit(made.exit_code)


def _show(made: ReceiptCheck, as_json: bool) -> None:
    problems = [text for found in made.checks.values() for text in found]
    if as_json:
        about = {name: found for name, found in made.checks.items() if found}
        summary = {"checked": made.checked, "valid": not problems, "problems": problems, "notes": made.notes}
        show_json({**summary, "wrong": about, "facts": made.facts, "signed_by": made.signed_by, "code": made.exit_code})
        return
    for line in (*problems, *(f"note: {note}" for note in made.notes)):
        click.echo(printable(line))
    by = f", signed by {made.signed_by}" if made.signed_by else ""
    click.echo(printable(f"{made.checked}: {'not valid' if problems else 'valid'}{by}"))


def _policy(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        found = tomllib.loads(read(path).decode())
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    words = {True: "yes", False: "no"}
    lists = {name: "|".join(map(str, value)) for name, value in found.items() if isinstance(value, list)}
    return {name: words[value] if isinstance(value, bool) else str(value) for name, value in found.items()} | lists


def _verify_chain(stored: ReceiptStore, keys: TrustedKeys | None, expect_last: str | None) -> ReceiptCheck:
    if not os.path.isdir(stored.directory):
        raise NotFound(f"there are no receipts in {stored.directory}")
    made = ReceiptCheck(checked=f"{len(stored)} receipts in {stored.directory}")
    for found in stored.check(trusted=keys, expect_last=expect_last):
        kind = "signature" if found.kind in ("unsigned", "bad_signature") else "content"
        made.add(kind, f"{found.run_id or 'chain'}: {found.kind}: {found.message}")
    return made


def _verify_file(path: str, name: str, keys: TrustedKeys | None, as_abp: bool) -> ReceiptCheck:
    data, made = read(path), ReceiptCheck(checked=name)
    envelopes = _envelopes(data)
    if envelopes:
        _verify_envelopes(envelopes, keys, made)
        return made
    notes: list[Deviation] = []
    try:
        found = receipts.normal(read_receipt(data, notes, as_abp=as_abp))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} is not a receipt: {error}") from error
    made.notes += map(str, notes)
    _verify_content(found, made)
    made.add("content", *_repeated(data))
    if keys is None:
        made.notes.append("it was not asked whose it is: name the keys that count with --key or --trusted")
    made.add("signature", *(f"{kind}: {message}" for kind, message in signature_problems(found, keys)))
    signature = ours(found).get("signature") or {}
    if keys is not None and not made.checks["signature"]:
        made.signed_by = keys.who(str(signature.get("public_key")))
    return made


def _repeated(data: bytes) -> Iterator[str]:
    try:
        name = repeated_name(data)
    except (ValueError, RecursionError) as error:
        yield f"not every reader understands it: {error}"
        return
    if name is not None:
        yield f"it says {name!r} twice in one place, and readers differ about which of them counts"


def _verify_content(found: Receipt, made: ReceiptCheck) -> None:
    made.facts = expecting.facts(found)
    made.add("content")
    expected = receipts.receipt_hash(found)
    if found.receipt_sha256 is None:
        made.add("content", f"it has no hash; it would be {expected}")
    elif found.receipt_sha256 != expected:
        made.add("content", f"its hash is {found.receipt_sha256}, and that of its content is {expected}")
    if found.meta.contract_version != receipts.CONTRACT:
        made.add("content", f"its contract is {found.meta.contract_version!r}, not {receipts.CONTRACT!r}")
    if found.meta.finished_at.rstrip("Z") < found.meta.started_at.rstrip("Z"):
        made.add("content", "it finished before it started")
    if found.outcome == "failed" and not any(isinstance(event, receipts.ErrorMet) for event in found.trace):
        made.add("content", "it failed, and its trace has no error")


# What `receipt export` writes...


def _envelopes(data: bytes) -> list[Any]:
    """The envelopes in a file: one, or one in each line. Empty when it is something else."""
    try:
        found = [msgspec.json.decode(data)]
    except msgspec.MsgspecError:
        try:
            found = [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        except msgspec.MsgspecError:
            return []
    names = {"payloadType", "dsseEnvelope"}
    return found if all(isinstance(one, dict) and names & one.keys() for one in found) else []


def _verify_envelopes(envelopes: list[Any], keys: TrustedKeys | None, made: ReceiptCheck) -> None:
    if keys is None and (own := load_signer()) is not None:
        keys = TrustedKeys(key=(TrustedKey(public=own.public_key, who="you"),))
    subjects: dict[str, list[Any]] = {}
    made.add("signature")
    made.add("content")
    for at, found in enumerate(envelopes, 1):
        try:
            statement, signed, signatures = unwrapped(found)
            made.add("content", *_repeated(base64.b64decode(found.get("dsseEnvelope", found)["payload"])))
        except (ValueError, msgspec.MsgspecError) as error:
            made.add("content", f"envelope {at}: {error}")
            continue
        kind = str(statement.get("predicateType"))
        subjects[kind] = [one.get("digest") for one in statement["subject"] if isinstance(one, dict)]
        when = _finished(statement)
        signer = keys.signer(signed, signatures) if keys is not None else None
        if signer is None:
            who = "no one who is trusted" if keys is not None else "no one: name the key with --key or --trusted"
            made.add("signature", f"envelope {at}: signed by {who}")
        elif keys is not None and (problem := keys.problem(signer.public, when)):
            made.add("signature", f"envelope {at}: {problem}")
        else:
            made.signed_by = signer.who or signer.public
        made.add("content", *_statement_problems(statement, kind, made))
    if {PREDICATE, PROVENANCE} <= subjects.keys():
        if any(one not in subjects[PREDICATE] for one in subjects[PROVENANCE]):
            made.add("content", "the two statements are about different things")


def _statement_problems(statement: dict[str, Any], kind: str, made: ReceiptCheck) -> Iterator[str]:
    predicate = statement.get("predicate")
    if not isinstance(predicate, dict) or not statement["subject"]:
        yield "a statement lacks its subject or its predicate"
    elif kind == PREDICATE:
        try:
            found = receipts.normal(read_receipt(msgspec.json.encode(predicate), []))
        except (ValueError, msgspec.MsgspecError) as error:
            yield f"its predicate is not a receipt: {error}"
            return
        _verify_content(found, made)
        if statement["subject"][0].get("digest") != {"sha256": found.receipt_sha256}:
            yield "its first subject is not the receipt"
    elif kind != PROVENANCE:
        made.notes.append(f"only the signature of a statement of the type {kind} was checked")


def _finished(statement: dict[str, Any]) -> str:
    predicate = statement.get("predicate") or {}
    details = (predicate.get("runDetails") or {}).get("metadata") or {}
    return str((predicate.get("meta") or {}).get("finished_at") or details.get("finishedOn") or "1970-01-01T00:00:00Z")


def _junit(made: ReceiptCheck) -> bytes:
    wrong = sum(1 for found in made.checks.values() if found)
    suite = ElementTree.Element(
        "testsuite", name="treadle receipt verify", tests=str(len(made.checks)), failures=str(wrong), errors="0"
    )
    for name, problems in made.checks.items():
        case = ElementTree.SubElement(suite, "testcase", classname="receipt", name=name)
        if problems:
            text = printable("\n".join(problems))
            ElementTree.SubElement(case, "failure", message=text.splitlines()[0]).text = text
    made_of: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return made_of + b"\n"
