"""`treadle receipt`: look at receipts, and find out whether anybody has changed them."""

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
from treadle.cli.host import WIDTH, show_receipt
from treadle.cli.render import one_line, printable
from treadle.errors import ConfigError, NotFound, StorageError
from treadle.host import evidence, gate
from treadle.host.backends import find_backends
from treadle.host.conclusion import address_of
from treadle.host.gate import TrustedKey, TrustedKeys, trusted_keys
from treadle.host.signing import load_signer, make_key, read_seed, use_agent_key, use_command
from treadle.host.store import ReceiptStore, read_strictly, row_of, signature_of, signature_problems
from treadle.io.files import read, read_if_there, write_atomic
from treadle.receipts import expecting
from treadle.receipts.statement import PREDICATE, PROVENANCE, STATEMENTS, SUMMARY, envelope, statements, unwrapped
from treadle.receipts.trace import misshapen
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import repeated_name
from treadle.wire.sidecar.receipts import Receipt
from treadle.wire.sidecar.repair import NOWHEN, read_receipt
from treadle.workspace import checkouts

# How `treadle receipt` finds receipts: by the run's id or its beginning, the latest, or by a path, which has a slash. A
# file that an agent calls `latest` is never taken for the run.

store_option = click.option("--store", metavar="DIR", help="The receipt store. Default: yours.")


def open_store(directory: str | None) -> ReceiptStore:
    return ReceiptStore(directory or find_backends().receipts_dir)


def find_path(name: str, store: ReceiptStore) -> str:
    if "/" in name:
        return name
    ids = [link.run_id for link in store.links()]
    fitting = ids[-1:] if name == "latest" else [run_id for run_id in ids if run_id.startswith(name.lower())]
    if len(fitting) != 1:
        many = f"{len(fitting)} receipts begin with" if fitting else "there is no receipt"
        raise NotFound(
            f"{many} {name!r}", hint=f"treadle receipt list shows them; a file is named with a slash: ./{name}"
        )
    return store.path(fitting[0])


# `treadle receipt verify`: is it what it says, did the right person sign it, and is it what someone expects?


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
        codes |= {"age": 22, "replayed": 23}
        return next((code for name, code in codes.items() if self.checks.get(name)), 0)


@click.command("verify")
@click.argument("file", required=False)
@click.option("--chain", is_flag=True, help="Verify every receipt in the store and their order.")
@click.option("--key", metavar="PUBLIC", help="Require a signature by this key (treadle receipt key).")
@click.option("--trusted", metavar="FILE", help="Require a signature by one of these keys. Default: trusted-keys.toml.")
@click.option("--expect-last", metavar="SHA256", help="With --chain: the expected hash of the last receipt.")
@click.option("--expect", multiple=True, metavar="NAME=VALUE,...", help="A required value in the receipt. Repeatable.")
@click.option("--policy", metavar="FILE", help="The required values as a TOML file: confined = true.")
@click.option("--junit", metavar="FILE", help="Also write a JUnit report to this file.")
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
    store: str | None,
    as_json: bool,
) -> None:
    """Verify a receipt or its export; with --chain, all stored receipts.

    \b
    treadle receipt verify latest --expect confined=yes,verified=yes,differences=none
    treadle receipt verify ./run.intoto.jsonl --trusted keys.toml --policy gate.toml --junit report.xml

    Exit code 0: valid. Otherwise the code of the first failure: 1 changed, 2 usage error, 10 no trusted signature, 11
    repo, 12 base, 13 agent, 14 model, 15 outcome, 16 confined, sealed or network, 17 policy or enforced, 18 verified,
    check or evidence, 19 differences, 20 tree or commit, 21 unchanged.
    """
    if chain == bool(file):
        raise click.UsageError("give either a FILE or --chain")
    if chain and (expect or policy):
        raise click.UsageError("--expect and --policy need one FILE")
    if expect_last and not chain:
        raise click.UsageError("--expect-last needs --chain")
    if key and trusted:
        raise click.UsageError("give either --key or --trusted")
    keys = trusted_keys(key, trusted)
    wanted = expecting.known({**_policy(policy), **expecting.parse(expect)})
    stored = open_store(store)
    if file is None:
        made = _verify_chain(stored, keys, expect_last)
    else:
        made = _verify_file(find_path(file, stored), file, keys)
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
        click.echo(one_line(line))
    by = f", signed by {made.signed_by}" if made.signed_by else ""
    click.echo(printable(f"{made.checked}: {'not valid' if problems else 'valid'}{by}"))


def _policy(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        found = tomllib.loads(read(path).decode())
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    if not found:
        raise ConfigError(f"{path} expects nothing", hint="NAME = VALUE, as in --expect")
    return {name: _word(value, f"{path}: {name}") for name, value in found.items()}


def _word(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return "|".join(value)
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a string, true, false or a non-empty list of strings")
    return value


def _verify_chain(stored: ReceiptStore, keys: TrustedKeys | None, expect_last: str | None) -> ReceiptCheck:
    if not os.path.isdir(stored.directory):
        raise NotFound(f"there are no receipts in {stored.directory}")
    made = ReceiptCheck(checked=f"{len(stored)} receipts in {stored.directory}")
    for found in stored.check(trusted=keys, expect_last=expect_last):
        kind = "signature" if found.kind in ("unsigned", "bad_signature") else "content"
        made.add(kind, f"{found.run_id or 'chain'}: {found.kind}: {found.message}")
    return made


def _verify_file(path: str, name: str, keys: TrustedKeys | None) -> ReceiptCheck:
    data, made = read(path, receipts.LARGEST), ReceiptCheck(checked=name)
    if _envelopes(data):
        _verify_envelopes(data, keys, made)
        return made
    try:
        found, refused, left_out = read_strictly(data)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path} is not a receipt: {error}") from error
    made.notes += left_out
    _verify_content(found, made)
    made.add("content", *refused, *_repeated(data))
    if keys is None:
        made.notes.append("it was not asked whose it is: name the keys that count with --key or --trusted")
    _verify_signature(found, keys, made)
    return made


def _verify_signature(found: Receipt, keys: TrustedKeys | None, made: ReceiptCheck) -> None:
    made.add("signature", *(f"{kind}: {message}" for kind, message in signature_problems(found, keys)))
    signature = signature_of(found)
    if signature is None or made.checks["signature"]:
        return
    if "version" not in signature:
        made.notes.append("its signature is of version 1, which does not say whether the run could read the key")
    if made.facts.get("key") == "in reach":
        made.notes.append("key in reach: the run was not kept from the key, so it could have signed this itself")
    if keys is not None and not made.checks["content"]:
        made.signed_by = keys.who(str(signature["public_key"]))


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
    wrong = misshapen(found)
    if not wrong and "evidence" in made.facts and (word := evidence.word_of(found)) != made.facts["evidence"]:
        made.notes.append(f"it says {made.facts['evidence']}, and the record of its evidence here {word}")
        made.facts["evidence"] = word
    made.add("content", *([wrong] if wrong else []))
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
    except RecursionError:
        return []
    except msgspec.MsgspecError:
        try:
            found = [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        except (msgspec.MsgspecError, RecursionError):
            return []
    names = {"payloadType", "dsseEnvelope"}
    return found if all(isinstance(one, dict) and names & one.keys() for one in found) else []


def _verify_envelopes(data: bytes, keys: TrustedKeys | None, made: ReceiptCheck) -> None:
    keys, envelopes = keys or _own_key(), _envelopes(data)
    found: dict[str, dict[str, Any]] = {}
    made.add("signature")
    made.add("content")
    for text in data.splitlines() if len(envelopes) > 1 else [data]:
        made.add("content", *(_repeated(text) if text.strip() else ()))
    for at, wrapped in enumerate(envelopes, 1):
        try:
            statement, signed, signatures = unwrapped(wrapped)
            made.add("content", *_repeated(base64.b64decode(wrapped.get("dsseEnvelope", wrapped)["payload"])))
        except (ValueError, msgspec.MsgspecError) as error:
            made.add("content", f"envelope {at}: {error}")
            continue
        signer = keys.signer(signed, signatures) if keys is not None else None
        if signer is None:
            who = "no one who is trusted" if keys is not None else "no one: name the key with --key or --trusted"
            made.add("signature", f"envelope {at}: signed by {who}")
        elif keys is not None and (problem := keys.problem(signer.public, _finished(statement))):
            made.add("signature", f"envelope {at}: {problem}")
        else:
            made.signed_by = signer.who or signer.public
        kind = str(statement.get("predicateType"))
        if kind in found:
            made.add("content", f"envelope {at}: a second statement of the type {kind}")
        found.setdefault(kind, statement)
    _verify_statements(found, keys, made)
    if made.exit_code:
        made.signed_by = None


def _own_key() -> TrustedKeys | None:
    own = load_signer()
    return TrustedKeys(key=(TrustedKey(public=own.public_key, who="you"),)) if own is not None else None


def _verify_statements(found: dict[str, dict[str, Any]], keys: TrustedKeys | None, made: ReceiptCheck) -> None:
    """Whether they say the same. The receipt among them has its own signature: one that was made of another file, as
    `export` once did, is not ours."""
    receipt = None
    for kind, statement in found.items():
        if not isinstance(statement.get("predicate"), dict) or not statement["subject"]:
            made.add("content", "a statement lacks its subject or its predicate")
        elif kind == PREDICATE:
            receipt = _stated_receipt(statement, keys, made)
        elif kind not in (PROVENANCE, SUMMARY):
            made.notes.append(f"only the signature of a statement of the type {kind} was checked")
    if receipt is None:
        made.notes.append("the receipt is not among the statements: only signatures were checked")
        return
    expected = statements(receipt)
    for name, kind in (("provenance", PROVENANCE), ("summary", SUMMARY)):
        if kind in found and not _same_facts(found[kind], expected.get(name)):
            made.add("content", f"the {name} says another thing than the receipt")


def _stated_receipt(statement: dict[str, Any], keys: TrustedKeys | None, made: ReceiptCheck) -> Receipt | None:
    try:
        found, refused, left_out = read_strictly(msgspec.json.encode(statement["predicate"]))
    except (ValueError, msgspec.MsgspecError) as error:
        made.add("content", f"its predicate is not a receipt: {error}")
        return None
    _verify_content(found, made)
    made.add("content", *refused, *left_out)
    made.add("signature", *(f"its receipt: {message}" for _, message in signature_problems(found, keys)))
    if statement["subject"][0].get("digest") != {"sha256": found.receipt_sha256}:
        made.add("content", "its first subject is not the receipt")
    return found


def _same_facts(given: dict[str, Any], expected: dict[str, Any] | None) -> bool:
    """By subjects and, where both have it, run and result. An older version of this program may have said less."""
    if expected is None:
        return False
    digests = [[one.get("digest") for one in each["subject"] if isinstance(one, dict)] for each in (given, expected)]
    facts = [_run_and_result(each["predicate"]) for each in (given, expected)]
    return all(one in digests[0] for one in digests[1]) and facts[0] == facts[1]


def _run_and_result(predicate: dict[str, Any]) -> tuple[Any, Any]:
    details = (predicate.get("runDetails") or {}).get("metadata") or {}
    return details.get("invocationId"), predicate.get("verificationResult")


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


@click.group()
def receipt() -> None:
    """List, show or verify receipts of runs. FILE is a run's id or id prefix, `latest`, or a path with a slash."""


def _read(name: str, store: ReceiptStore) -> Receipt:
    path = find_path(name, store)
    return parsed(read(path, receipts.LARGEST), path)


def parsed(data: bytes, where: str) -> Receipt:
    """In normal form."""
    try:
        return receipts.normal(read_receipt(data, []))
    except (ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{where} is not a receipt: {error}") from error


@receipt.command("list")
@store_option
@json_option
def list_receipts(store: str | None, as_json: bool) -> None:
    """List receipts, the oldest first."""
    stored = open_store(store)
    rows = [row_of(stored, link) for link in stored.links()]
    if as_json:
        show_json(rows)
        return
    for row in rows:
        head = f"{row.sequence:5}  {row.run_id}  {row.outcome:8}  {row.started_at:24}  {row.backend}"
        click.echo(printable(f"{head}  {one_line(row.task or '')}"[:WIDTH]))


@receipt.command("show")
@click.argument("file")
@store_option
@json_option
def show(file: str, store: str | None, as_json: bool) -> None:
    """Show a receipt and verify its signature. Exits with 1 if it was changed."""
    stored = open_store(store)
    found, path = _read(file, stored), find_path(file, stored)
    made = _verify_file(path, file, trusted_keys() or _own_key())
    if as_json:
        click.echo(receipts.encode(found))
    else:
        show_receipt(found, path)
        signer = f"signed by {made.signed_by}" if made.signed_by else "not signed by anyone who is trusted"
        reach = ", with the key in reach of the run" if made.facts.get("key") == "in reach" else ""
        click.echo(printable(f"  {signer}{reach}"))
    for problem in made.checks["content"]:
        click.echo(one_line(f"treadle: not valid: {problem}"), err=True)
    sys.exit(1 if made.checks["content"] else 0)


@receipt.command("order")
@click.argument("file")
@store_option
def order(file: str, store: str | None) -> None:
    """Print a run's order, without secrets."""
    stored = open_store(store)
    path = stored.order_path(_read(file, stored).meta.work_order_id)
    text = read_if_there(path)
    if text is None:
        raise NotFound("the order of this run is not stored", hint=f"expected at {path}")
    click.echo(text.decode(), nl=False)


receipt.add_command(verify)


@receipt.group("gate")
def gates() -> None:
    """A branch's requirements for agents' work, in a file on that branch. Pull requests cannot change it."""


@gates.command("init")
@click.option("--check", required=True, metavar="COMMAND", help="The command of --verify that must have passed.")
@click.option("--agent", multiple=True, metavar="NAME", help="Only work of this agent. Again for more.")
@click.option("--unchanged", multiple=True, metavar="PATTERN", help="What agents must not change. Again for more.")
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="How old a receipt may be.")
@click.option("--key", multiple=True, metavar="PUBLIC", help="Whose signature counts. Default: yours.")
@click.option("--repository", metavar="URL", help="Its address. Default: that of the remote origin.")
def gate_init(
    check: str,
    agent: tuple[str, ...],
    unchanged: tuple[str, ...],
    days: int,
    key: tuple[str, ...],
    repository: str | None,
) -> None:
    """Write the gate of this repository, to be committed to the branch that requests go to."""
    user = checkouts.around(os.getcwd())
    address = repository or address_of(user)
    if address is None:
        raise ConfigError("this repository has no remote with a public address", hint="name it with --repository")
    own = load_signer() if not key else None
    if own is None and not key:
        raise NotFound("you have no key", hint="treadle receipt keygen makes one, or name keys with --key")
    keys = key or ((own.public_key,) if own is not None else ())
    made = gate.ReceiptGate(
        format=gate.FORMAT,
        repository=address,
        check=check,
        days=days,
        key=tuple(TrustedKey(public=one) for one in keys),
        agents=agent or None,
        unchanged=unchanged or None,
    )
    place, text = os.path.join(user.top, gate.PATH), gate.written(made).encode()
    gate.parse(text, gate.PATH)
    if os.path.exists(place):
        raise StorageError(f"there is already a gate at {place}", hint="change it, or remove it first")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    write_atomic(place, text, 0o644)
    click.echo(f"{gate.PATH}: commit it to the branch that requests go to")


@gates.command("check")
@click.argument("commit")
@click.option("--target", required=True, metavar="BRANCH", help="Where it is requested into; its gate counts.")
@click.option("--receipt", "file", metavar="FILE", help="What `export` wrote. Default: the commit's git note.")
@click.option("--junit", metavar="FILE", help="Also write a JUnit report to this file.")
@json_option
def gate_check(commit: str, target: str, file: str | None, junit: str | None, as_json: bool) -> None:
    """Check a commit requested into a branch by the gate of that branch. Nothing of the commit is run.

    Its receipt is the git note in refs/notes/receipts. Exits as `verify` does, with 22 when the receipt is too old, and
    23 when its work was on the branch before. Where claims and facts differ is shown, and not judged.
    """
    user = checkouts.around(os.getcwd())
    wanted = gate.read_from(user, target)
    made = ReceiptCheck(checked=commit)
    data = read(file, receipts.LARGEST) if file is not None else gate.note_of(user, commit)
    _verify_envelopes(data, wanted.keys, made)
    expected = expecting.known(gate.expected_of(user, wanted, target, commit))
    for name, value in expected.items():
        problem = expecting.unmet(name, value, made.facts)
        made.add(name, *([problem] if problem else []))
    if made.checks["setup"]:
        made.notes.append("the set-up is the base's where `treadle trust` was said, or --setup names the same")
    made.add("age", *gate.too_old(wanted, made.facts.get("finished", NOWHEN)))
    made.add("replayed", *gate.used_before(user, target, made.facts))
    made.add("unchanged", *gate.gate_changes(user, expected["base"], commit))
    made.add("commit", *gate.brought_in(user, target, commit, made.facts))
    if made.facts.get("differences", "none") != "none":
        made.notes.append(f"claims and facts differ in {made.facts['differences']} places, which is not judged")
    if junit:
        write_atomic(junit, _junit(made), 0o644)
    _show(made, as_json)
    sys.exit(made.exit_code)


@receipt.command("export")
@click.argument("file")
@click.option("--only", type=click.Choice(list(STATEMENTS)), help="Print only this statement.")
@click.option(
    "--form",
    type=click.Choice(["envelope", "statement", "predicate"]),
    default="envelope",
    show_default=True,
    help="Signed envelope, unsigned statement, or only its predicate.",
)
@click.option("--out", metavar="FILE", help="Write to this file instead of stdout.")
@store_option
def export(file: str, only: str | None, form: str, out: str | None, store: str | None) -> None:
    """Print a receipt for other verifiers: in-toto statements in DSSE envelopes, one per line. The signatures are from
    the end of the run: a receipt from a file, or of a run without a key, has none.

    The statements are SLSA provenance (of a complete run), the receipt, and a summary of the check (if one ran).
    """
    stored = open_store(store)
    found = _read(file, stored)
    made = statements(found)
    if (missing := only or "receipt") not in made:
        try:
            STATEMENTS[missing](found)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    signed = _signed_envelopes(file, stored, found) if form == "envelope" else {}
    if form == "envelope" and not signed:
        click.echo(
            "treadle: this receipt was not signed when its run ended, so its statements are not signed", err=True
        )
    lines = []
    for name in made if only is None else [only]:
        whole = signed.get(made[name]["predicateType"]) or envelope(made[name])
        forms = {"envelope": whole, "statement": made[name], "predicate": made[name]["predicate"]}
        lines.append(msgspec.json.encode(forms[form]) + b"\n")
    if out is None:
        click.echo(b"".join(lines), nl=False)
    else:
        write_atomic(out, b"".join(lines), 0o644)


def _signed_envelopes(name: str, stored: ReceiptStore, found: Receipt) -> dict[str, Any]:
    """By the type of what they state: those that were signed when the run ended. Raises StorageError when they are
    about another receipt."""
    path = stored.statements_path(found.meta.run_id)
    data = read(path, receipts.LARGEST) if "/" not in name and os.path.exists(path) else b""
    wrapped = {str(unwrapped(one)[0]["predicateType"]): one for one in _envelopes(data)}
    whole = unwrapped(wrapped[PREDICATE])[0]["predicate"] if PREDICATE in wrapped else None
    if whole is not None and whole.get("receipt_sha256") != found.receipt_sha256:
        raise StorageError(f"the signature of {found.meta.run_id} belongs to another receipt")
    return wrapped


@receipt.command("keygen")
@click.option(
    "--from",
    "origin",
    metavar="WHERE",
    help="Use an existing Ed25519 key: a file, env:NAME, command:PROGRAM that prints it, ssh-agent:[NAME], or "
    "sign:PUBLIC COMMAND.",
)
def keygen(origin: str | None) -> None:
    """Create the key that signs your receipts from now on. Prints the public key; store it elsewhere.

    With --from, the key is read from a file, a variable or a command, such as a CI secret: PEM, OpenSSH or base64. With
    ssh-agent:, the key stays in the agent; NAME is its name in `ssh-add -l`. With sign:, COMMAND signs what it reads
    from stdin with the key of this PUBLIC half, such as one in a PKCS#11 token.
    """
    if origin is not None and origin.startswith("ssh-agent:"):
        return click.echo(use_agent_key(origin.partition(":")[2]).public_key)
    if origin is not None and origin.startswith("sign:"):
        return click.echo(use_command(origin.partition(":")[2]).public_key)
    click.echo(make_key(seed=read_seed(origin) if origin else None).public_key)


@receipt.command("key")
def key() -> None:
    """Print your public key."""
    signer = load_signer()
    if signer is None:
        raise NotFound("you have no key", hint="treadle receipt keygen makes one")
    click.echo(signer.public_key)
