"""Keys and signatures."""

import base64
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.conftest import need
from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.errors import ConfigError, NotFound, StorageError
from treadle.host import evidence
from treadle.host.signing import Signer, key_path, load_signer, make_key, read_seed, use_agent_key, use_command, verify
from treadle.host.store import ReceiptStore, signature_problems
from treadle.receipts.trace import Check, ours
from treadle.verification.evidence import CheckEvidence, Word


def test_a_signature_fits_its_key_and_its_data_and_nothing_else() -> None:
    signer = Signer(b"s" * 32)
    signature = signer.sign(b"data")
    assert verify(signer.public_key, signature, b"data")
    assert not verify(signer.public_key, signature, b"datb")
    assert not verify(Signer(b"t" * 32).public_key, signature, b"data")
    for nonsense in ("", "@@@", "AAAA"):
        assert not verify(nonsense, signature, b"data") and not verify(signer.public_key, nonsense, b"data")


def test_a_key_is_never_replaced_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "keys" / "k")
    made = make_key(path)
    with pytest.raises(StorageError, match=f"there is already a key at {path} .move it first"):
        make_key(path)
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(tmp_path / "keys").st_mode & 0o777 == 0o700
    loaded = load_signer(path)
    assert (
        loaded is not None and loaded.public_key == made.public_key and verify(made.public_key, loaded.sign(b"x"), b"x")
    )
    for text, said in (
        ("hello", "contains no key .make a new one"),
        ("aGVsbG8=", "contains no key of 32 bytes .make a new one"),
    ):
        Path(path).write_text(text)
        with pytest.raises(ConfigError, match=f"{path} {said}: treadle receipt keygen"):
            load_signer(path)
    assert load_signer(str(tmp_path / "none")) is None


def test_a_key_that_someone_has_is_kept_as_it_is_in_the_place_for_it(state_home: Path) -> None:
    assert load_signer() is None
    made = make_key(seed=b"7" * 32)
    assert made.public_key == Signer(b"7" * 32).public_key == make_key(seed=b"7" * 32).public_key
    assert Path(key_path()).read_bytes() == base64.b64encode(b"7" * 32) + b"\n" and key_path().startswith(
        str(state_home)
    )
    loaded = load_signer()
    assert loaded is not None and loaded.public_key == made.public_key
    with pytest.raises(StorageError):
        make_key(seed=b"8" * 32)
    Path(key_path()).unlink()
    assert make_key().public_key != make_key(f"{key_path()}2").public_key


@pytest.mark.parametrize("form", ["base64", "pem", "openssh", "command", "env"])
def test_a_key_is_read_in_the_forms_that_people_have(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.from_private_bytes(b"7" * 32)
    forms = {"pem": PrivateFormat.PKCS8, "openssh": PrivateFormat.OpenSSH}
    plain = base64.b64encode(b"7" * 32)
    text = key.private_bytes(Encoding.PEM, forms[form], NoEncryption()) if form in forms else plain
    (tmp_path / "key").write_bytes(text)
    monkeypatch.setenv("SIGNING", text.decode())
    given = {"command": f"command:cat {tmp_path}/key", "env": "env:SIGNING"}
    assert read_seed(given.get(form, str(tmp_path / "key"))) == b"7" * 32


def test_what_is_no_key_is_named_with_where_it_is(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    none = "is not an Ed25519 key .PEM, OpenSSH's form, or 32 bytes in base64"
    for text, said in (
        (b"short", none),
        (base64.b64encode(b"7" * 31), none),
        (b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n", "is not a usable private key: "),
        (other, none),
    ):
        (tmp_path / "key").write_bytes(text)
        with pytest.raises(ConfigError, match=f"{tmp_path}/key {said}"):
            read_seed(str(tmp_path / "key"))
    for wrong, said in (
        ("env:NO_SUCH_VARIABLE", "there is no variable NO_SUCH_VARIABLE .set it"),
        ("command:echo why >&2; exit 3", "'echo why >&2; exit 3' exits with 3: why"),
        ("command:echo x", "what 'echo x' prints is not an Ed25519 key"),
    ):
        with pytest.raises(ConfigError, match=said):
            read_seed(wrong)
    for kind in ("env", "command"):
        with pytest.raises(StorageError):
            read_seed(kind), "without a colon it is a file"


@pytest.fixture
def ssh_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent with a key of each of two kinds; the files with their private halves are gone."""
    need("ssh-agent")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(tmp_path / "agent")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline(), "it listens"
        for kind, name in (("ed25519", "me"), ("ecdsa", "other")):
            subprocess.run(["ssh-keygen", "-qt", kind, "-N", "", "-C", name, "-f", tmp_path / kind], check=True)
            subprocess.run(["ssh-add", "-q", tmp_path / kind], check=True)
            (tmp_path / kind).unlink()
        yield tmp_path / "agent"
        process.kill()


@pytest.mark.parametrize("reply", [None, b"", b"\0\0\0\1\5", b"\0\0\0\5\x0e\0\0\0\0", b"\0\0\0\5\x0e\0\0\0\4"])
def test_what_a_check_showed_is_stored_unsigned_when_no_agent_signs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes | None
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    Path(key_path()).parent.mkdir(parents=True)
    Path(key_path()).write_text(f"ssh-agent:{Signer(b's' * 32).public_key}")

    def answer() -> None:
        with listener.accept()[0] as asking:
            asking.recv(1)  # the rest is unread, so that the other end is reset
            asking.sendall(reply or b"")

    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as threads:
        if reply is not None:
            listener.bind(str(tmp_path / "agent"))
            listener.listen()
            threads.submit(answer)
        found = CheckEvidence(command="make", base="b", tree="t", word="passed", why="")
        made = evidence.keep_check(Check(command="make", exit_code=0, output_tail="", evidence=found))
    assert made is not None and evidence.load(made.id) == made and made.standing == "not signed"


@pytest.mark.parametrize(("said", "known", "word"), [("proven", "weak", "weak"), ("weak", "proven", "weak")])
def test_a_record_of_the_evidence_that_is_worse_than_the_receipt_counts_and_a_better_one_does_not(
    said: Word, known: Word, word: Word
) -> None:
    found = CheckEvidence(command="make", base="b", tree="t", word=said, why="")
    check = {"command": "make", "exit_code": 0, "evidence": to_builtins(found)}
    receipt = replace(SAMPLE_RECEIPT, usage_raw={"treadle": {"format": 2, "observed": {"check": check}}})
    assert evidence.word_of(receipt) == said
    evidence.keep(replace(found, word=known), "", (), None)
    assert evidence.word_of(receipt) == word


def test_a_command_signs_for_a_key_in_a_token_and_one_that_signs_with_another_key_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"Ed25519PrivateKey.from_private_bytes({b's' * 32!r})"
    script = tmp_path / "token.py"
    script.write_text(
        "import sys\nfrom cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey\n"
        f"sys.stdout.buffer.write({key}.sign(sys.stdin.buffer.read()))\n"
    )
    public, command = Signer(b"s" * 32).public_key, f"{sys.executable} {script}"
    for given in (f"{Signer(b'o' * 32).public_key} {command}", f"{public} echo x", f"{public} false"):
        with pytest.raises(StorageError, match="does not sign|exits with 1"):
            use_command(given)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="exits with 2"):  # it would be found wherever a run is, also in a project
        use_command(f"{public} {sys.executable} token.py")
    use_command(f"{public} {command}")
    signer = load_signer()
    assert signer is not None and verify(public, signer.sign(b"data"), b"data")
    assert subprocess.run(["sh", "-c", signer.reached_if]).returncode == 0
    script.unlink()
    assert subprocess.run(["sh", "-c", signer.reached_if], stderr=subprocess.DEVNULL).returncode == 1


def test_an_agent_signs_with_a_key_that_no_file_has_and_without_it_the_receipt_says_so(ssh_agent: Path) -> None:
    with pytest.raises(NotFound, match="0 Ed25519 keys of the ssh agent fit .*name one of me"):
        use_agent_key("other")
    public = use_agent_key("").public_key
    signer = load_signer()
    assert signer is not None and signer.public_key == use_agent_key("me").public_key == public
    assert verify(public, signer.sign(b"data"), b"data") and str(ssh_agent) in signer.reached_if
    store = ReceiptStore(signer=signer)
    raw = {"treadle": {"format": 2, "observed": {"workspace": {"start_tree": "t"}}}}
    for run_id, signed in ((SAMPLE_RECEIPT.meta.run_id, True), (SAMPLE_RECEIPT.meta.work_order_id, False)):
        meta = replace(SAMPLE_RECEIPT.meta, run_id=run_id)
        run = store.register(run_id, None, "t", key_in_reach=False)
        if not signed:
            subprocess.run(["ssh-add", "-qD"], check=True, stderr=subprocess.DEVNULL)
        done = store.add(replace(SAMPLE_RECEIPT, meta=meta, usage_raw=raw), run)
        assert bool(ours(done)["signature"]) is signed and not signature_problems(done)
        assert Path(store.statements_path(run_id)).exists() is signed
    assert "the ssh agent does not sign" in ours(done)["notes"][0]["problem"]
    with pytest.raises(StorageError, match="does not sign"):
        store.register(run_id, None, "t", key_in_reach=False)
