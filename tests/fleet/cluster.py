"""Servers that are not Treadle's own: one or three, with TLS, with passwords or with credentials files."""

import base64
import datetime
import hashlib
import ipaddress
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from treadle.fleet.engine import server

PASSWORD = "secret"


def certificate(place: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "treadle tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = place / "ca.pem", place / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return pem, secret


class Server:
    """One server in a process of its own, that can be killed and started again."""

    def __init__(self, place: Path, number: int, settings: str) -> None:
        self.port = server.free_port()
        self.place = place / f"s{number}"
        self.place.mkdir(parents=True)
        self.config = self.place / "server.conf"
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, routes: str = "") -> None:
        self.config.write_text(
            f'server_name: "{self.place.name}"\nlisten: "127.0.0.1:{self.port}"\nmax_payload: 8MB\n'
            f'logfile: "{self.place}/log"\njetstream {{store_dir: "{self.place}/js"}}\n{self.settings}\n{routes}\n'
        )

    def start(self) -> None:
        self._process = subprocess.Popen([server.find_program().path, "-c", self.config])

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            if number != signal.SIGSTOP:
                self._process.wait(60)

    def pause(self, on: bool) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


@contextmanager
def three(place: Path) -> Iterator[tuple[str, str, list[Server]]]:
    """A cluster with TLS and a password: its address, the authority's file, and the servers."""
    pem, key = certificate(place)
    tls = f'tls {{cert_file: "{pem}", key_file: "{key}"}}'
    users = f'authorization {{users: [{{user: "treadle", password: "{PASSWORD}"}}]}}'
    servers = [Server(place, number, f"{tls}\n{users}") for number in range(3)]
    ports = [server.free_port() for _ in servers]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    try:
        for each, port in zip(servers, ports, strict=True):
            each.write(f'cluster {{name: "c", listen: "127.0.0.1:{port}", routes: [{routes}]}}')
            each.start()
        url = ",".join(f"tls://treadle:{PASSWORD}@127.0.0.1:{each.port}" for each in servers)
        yield url, str(pem), servers
    finally:
        for each in servers:
            each.end()


@contextmanager
def with_credentials(place: Path) -> Iterator[tuple[str, str]]:
    """A server that knows people by signed credentials: its address, and a credentials file."""
    operator, system, account, user = (_pair(kind) for kind in ("operator", "account", "account", "user"))
    operator_jwt = _signed(operator, operator, "operator", {})
    limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "subs": -1, "data": -1}
    more = {"payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1, "wildcards": True}
    account_jwt = _signed(operator, account, "account", {"limits": {**limits, **more}})
    system_jwt = _signed(operator, system, "account", {"limits": {**more, "subs": -1, "data": -1}})
    user_jwt = _signed(account, user, "user", {"subs": -1, "data": -1, "payload": -1})
    creds = place / "me.creds"
    creds.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    name, first = account.public_key.decode(), system.public_key.decode()
    known = f"resolver_preload: {{ {name}: {account_jwt}, {first}: {system_jwt} }}"
    settings = f"operator: {operator_jwt}\nsystem_account: {first}\nresolver: MEMORY\n{known}"
    made = Server(place, 0, settings)
    made.write()
    made.start()
    try:
        yield f"nats://127.0.0.1:{made.port}", str(creds)
    finally:
        made.end()


def _pair(kind: str) -> Any:
    prefix = {"operator": nkeys.PREFIX_BYTE_OPERATOR, "account": nkeys.PREFIX_BYTE_ACCOUNT}
    seed = nkeys.encode_seed(os.urandom(32), prefix.get(kind, nkeys.PREFIX_BYTE_USER))
    return nkeys.from_seed(bytearray(seed))


def _signed(issuer: Any, subject: Any, kind: str, content: dict[str, Any]) -> str:
    claims: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public_key.decode(),
        "name": kind,
        "sub": subject.public_key.decode(),
        "nats": {**content, "type": kind, "version": 2},
    }
    digest = hashlib.new("sha512_256", json.dumps(claims).encode()).digest()
    claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
    head = _text({"typ": "JWT", "alg": "ed25519-nkey"})
    body = _text(claims)
    signature = base64.urlsafe_b64encode(issuer.sign(f"{head}.{body}".encode())).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


def _text(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
