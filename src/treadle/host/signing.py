"""Ed25519 signatures on receipts; whose count is in `gate`. Only its owner can read the private key's file; needs the
extra `signing`.

The signer is in the process that supervises the run, outside of every sandbox, and signs what that process has seen. A
process of its own would add nothing: a program that can reach this one, of the same user and in no sandbox, can
read the key's file, too. A run is registered before its agent starts, and only what is registered is signed, once.
No command signs a file.
"""

from __future__ import annotations

import base64
import os
import shlex
import struct
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, MissingExtra, NotFound, StorageError
from treadle.io.files import read, read_if_there, write_atomic
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import run_program
from treadle.io.sockets import connect

COMMAND_SECONDS = 60.0
_IN_AGENT, _BY_COMMAND = b"ssh-agent:", b"sign:"
"""What the key's file begins with if an ssh agent has the key, or a command signs; its public half follows."""


def key_path() -> str:
    return os.path.join(state_dir(), "keys", "receipts.ed25519")


class Signer:
    """Signs with one private key."""

    algorithm = "ed25519"

    def __init__(self, seed: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        except ImportError as error:
            raise MissingExtra("signing receipts", "signing") from error
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = base64.b64encode(public).decode()

    def sign(self, data: bytes) -> str:
        return base64.b64encode(self._key.sign(data)).decode()

    @property
    def reached_if(self) -> str:
        """A command that succeeds where a program can sign with this key, too."""
        return f"test -r {shlex.quote(key_path())}"

    def register(self, run: RunRegistration) -> RunRegistration:
        """Promise to sign the receipt of this run."""
        return replace(run, value=self.sign(run.promised()))

    def has_registered(self, run: RunRegistration) -> bool:
        """Whether it was this key that made the promise: no other can have a run signed, also not a dead one."""
        return verify(self.public_key, run.value, run.promised())


class AgentSigner(Signer):
    """Signs with a key that an ssh agent has: no file has it, and only who reaches the agent's socket can sign."""

    def __init__(self, public_key: str) -> None:
        self.public_key = public_key

    @property
    def reached_if(self) -> str:
        return f"test -e {shlex.quote(_agent_socket())}"

    def sign(self, data: bytes) -> str:
        key = _packed(b"ssh-ed25519", base64.b64decode(self.public_key))
        reply = _ask_agent(b"\x0d" + _packed(key, data) + bytes(4))  # SSH_AGENTC_SIGN_REQUEST, without flags
        fields = [part for field in _unpacked(reply[1:]) for part in _unpacked(field)] if reply[:1] == b"\x0e" else []
        value = base64.b64encode(fields[-1]).decode() if fields else ""
        if not verify(self.public_key, value, data):
            raise StorageError("the ssh agent does not sign with the key of your receipts", hint="see ssh-add -l")
        return value


class CommandSigner(Signer):
    """Signs with a command that reads the data and writes the 64 bytes of the signature: that of a token (PKCS#11).

    It runs in `/`: where we are, an agent may have written the script that it names, or a module that it imports.
    """

    def __init__(self, public_key: str, command: str) -> None:
        self.public_key = public_key
        self._command = command

    @property
    def reached_if(self) -> str:
        return f"cd / && echo x | ({self._command}) | grep -q ."

    def sign(self, data: bytes) -> str:
        done = run_program(["sh", "-c", self._command], cwd="/", stdin=data, timeout=COMMAND_SECONDS)
        value = base64.b64encode(done.stdout).decode()
        if done.code != 0 or not verify(self.public_key, value, data):
            why = f"exits with {done.code}: {done.complaint}" if done.code else "does not sign with this key"
            raise StorageError(f"{self._command!r} {why}", hint="it must read stdin and write a signature of 64 bytes")
        return value


def use_command(given: str, path: str | None = None) -> Signer:
    """Sign from now on with a command; before it stands the public half of its key."""
    public, _, command = given.partition(" ")
    check_public_key(public, "sign:PUBLIC COMMAND")
    signer = CommandSigner(public, command)
    signer.sign(b"treadle" * 1000)  # some programs sign only what is short
    _write_key(path or key_path(), _BY_COMMAND + given.encode(), signer)
    return signer


def _agent_socket() -> str:
    if not (path := os.environ.get("SSH_AUTH_SOCK")):
        raise ConfigError("SSH_AUTH_SOCK does not point to an ssh agent", hint="start the one with your receipts' key")
    return path


def _ask_agent(message: bytes) -> bytes:
    try:
        with connect(_agent_socket(), COMMAND_SECONDS) as agent, agent.makefile("rwb") as stream:
            stream.write(_packed(message))
            stream.flush()
            size = stream.read(4)
            return stream.read(struct.unpack(">I", size)[0]) if len(size) == 4 else b""
    except OSError as error:
        raise StorageError(f"the ssh agent does not answer: {error}", hint="does it wait for you?") from error


def _packed(*fields: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(one)) + one for one in fields)


def _unpacked(data: bytes) -> list[bytes]:
    fields = []
    while len(data) >= 4:
        size = struct.unpack(">I", data[:4])[0]
        fields.append(data[4 : 4 + size])
        data = data[4 + size :]
    return fields


def _keys_in_agent() -> dict[str, str]:
    """The names of the Ed25519 keys that the agent has, by their public half."""
    reply = _ask_agent(b"\x0b")  # SSH_AGENTC_REQUEST_IDENTITIES; the reply begins with its type and a number
    listed = _unpacked(reply[5:]) if reply[:1] == b"\x0c" else []
    found = {}
    for blob, name in zip(listed[::2], listed[1::2], strict=False):
        if (fields := _unpacked(blob))[:1] == [b"ssh-ed25519"] and len(fields) == 2:
            found[base64.b64encode(fields[1]).decode()] = name.decode("utf-8", "replace")
    return found


def use_agent_key(wanted: str, path: str | None = None) -> Signer:
    """Sign from now on with the key of the ssh agent that has this name, or with its only one."""
    known = _keys_in_agent()
    fitting = [public for public, name in known.items() if not wanted or name == wanted]
    if len(fitting) != 1:
        names = ", ".join(sorted(known.values())) or "none"
        raise NotFound(f"{len(fitting)} Ed25519 keys of the ssh agent fit", hint=f"name one of {names}")
    signer = AgentSigner(fitting[0])
    _write_key(path or key_path(), _IN_AGENT + fitting[0].encode(), signer)
    return signer


class RunRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose receipt is to be signed, as it is known before its agent starts."""

    run_id: str
    order_sha256: str | None
    """Of the order as it is stored."""
    start_tree: str | None
    """What its agent finds."""
    pid: int
    started: float
    key_in_reach: bool
    """Whether the run can read the key, and so sign whatever it wants."""
    value: str = ""

    def promised(self) -> bytes:
        return b"treadle run 1\n" + msgspec.json.encode(replace(self, value=""), order="sorted")

    def stated(self) -> dict[str, Any]:
        """As in the signature of its receipt."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name not in ("run_id", "value")}


def load_signer(path: str | None = None) -> Signer | None:
    """The person's key, or None when they have made none."""
    place = path or key_path()
    data = read_if_there(place)
    if data is None:
        return None
    if data.startswith(_IN_AGENT):
        return AgentSigner(data.removeprefix(_IN_AGENT).strip().decode())
    if data.startswith(_BY_COMMAND):
        return CommandSigner(*data.removeprefix(_BY_COMMAND).decode().rstrip("\n").split(" ", 1))
    try:
        seed = base64.b64decode(data.strip(), validate=True)
    except ValueError as error:
        raise ConfigError(f"{place} contains no key", hint="make a new one: treadle receipt keygen") from error
    if len(seed) != 32:
        raise ConfigError(f"{place} contains no key of 32 bytes", hint="make a new one: treadle receipt keygen")
    return Signer(seed)


def make_key(path: str | None = None, *, seed: bytes | None = None) -> Signer:
    """Make a new key, or keep this one. One that is there is not replaced: its receipts could no longer be verified."""
    seed = os.urandom(32) if seed is None else seed
    signer = Signer(seed)
    _write_key(path or key_path(), base64.b64encode(seed), signer)
    return signer


def _write_key(place: str, text: bytes, signer: Signer) -> None:
    if os.path.exists(place):
        known = load_signer(place)
        if known is not None and known.public_key == signer.public_key:
            return
        raise StorageError(f"there is already a key at {place}", hint="move it first if you want a new one")
    private_dir(os.path.dirname(os.path.abspath(place)))
    write_atomic(place, text + b"\n")


def read_seed(origin: str) -> bytes:
    """A private key that exists: in a file, in a variable (`env:NAME`), or printed by a command (`command:PROGRAM`)."""
    kind, given, name = origin.partition(":")
    if given and kind == "env":
        if name not in os.environ:
            raise ConfigError(f"there is no variable {name}", hint="set it, or use the name that your CI uses")
        return _seed(os.environ[name].encode(), f"the variable {name}")
    if given and kind == "command":
        done = run_program(["sh", "-c", name], timeout=COMMAND_SECONDS)
        if done.code != 0:
            raise ConfigError(f"{name!r} exits with {done.code}: {done.complaint}")
        return _seed(done.stdout, f"what {name!r} prints")
    return _seed(read(origin), origin)


def _seed(data: bytes, where: str) -> bytes:
    """32 bytes from base64, or from PEM or OpenSSH's form, without a password."""
    if b"-----BEGIN" not in data:
        try:
            seed = base64.b64decode(data.strip(), validate=True)
        except ValueError:
            seed = b""
        if len(seed) == 32:
            return seed
    else:
        try:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise MissingExtra("signing receipts", "signing") from error
        ssh = b"OPENSSH PRIVATE KEY" in data
        load = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
        try:
            key = load(data.strip() + b"\n", None)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{where} is not a usable private key: {error}") from error
        if isinstance(key, Ed25519PrivateKey):
            return key.private_bytes_raw()
    raise ConfigError(f"{where} is not an Ed25519 key", hint="PEM, OpenSSH's form, or 32 bytes in base64")


def verify(public_key: str, signature: str, data: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("checking signatures", "signing") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(_decoded(public_key))
        key.verify(_decoded(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _decoded(text: str) -> bytes:
    """Raises ValueError also where the bits that base64 leaves over are used: one signature has one text."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("it is not valid base64")
    return data


def check_public_key(public: str, where: str) -> None:
    try:
        good = len(base64.b64decode(public, validate=True)) == 32
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{where}: {public[:60]!r} is not a public key", hint="treadle receipt key prints yours")
