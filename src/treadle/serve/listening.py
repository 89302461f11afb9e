"""Where the server listens: a port or a Unix socket, the names it is reached by, and its certificate, which this
machine's own authority can issue.
"""

from __future__ import annotations

import datetime
import html
import ipaddress
import os
import socket
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from treadle.errors import ConfigError, MissingExtra, NotFound
from treadle.io import sockets
from treadle.io.files import read, read_if_there, write_atomic
from treadle.io.paths import private_dir
from treadle.policy.network import is_loopback
from treadle.serve.envelope import failure
from treadle.serve.gate import own_names
from treadle.serve.tokens import directory

if TYPE_CHECKING:
    from cryptography import x509


# A certificate for a server without a public name, issued by this machine's own authority.
#
# A phone allows a page on plain http neither notifications nor a place on the home screen. The one who installs this
# authority on a phone trusts it for the names of this server and for nothing else: the certificate says so, and
# phones obey it. The page at /ca explains it there.

AUTHORITY_DAYS, SERVER_DAYS = 3650, 397
"""Phones accept no server certificate that is valid for much more than a year."""


class LocalAuthority(NamedTuple):
    certificate: str
    """The file with the server's own certificate; its key is in another."""
    key: str
    authority: bytes
    """The authority's certificate, for other devices to install."""
    fingerprint: str


def ensure(names: Iterable[str]) -> LocalAuthority:
    """A fresh certificate for these names by this machine's authority, which is made if there is none for them."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
    except ImportError:
        raise MissingExtra("a certificate by --local-ca", "fleet") from None

    here = private_dir(os.path.join(directory(), "ca"))
    wanted = sorted(names)
    ca_path, ca_key_path = os.path.join(here, "authority.pem"), os.path.join(here, "authority-key.pem")
    stored = read_if_there(ca_path)
    if stored is None or not _is_for(x509.load_pem_x509_certificate(stored), wanted):
        made, key = _authority(wanted)
        write_atomic(ca_key_path, _pem(key))
        write_atomic(ca_path, made.public_bytes(serialization.Encoding.PEM))
    authority = x509.load_pem_x509_certificate(read(ca_path))
    issuer_key = serialization.load_pem_private_key(read(ca_key_path), None)
    certificate, key = _server(wanted, authority, issuer_key)
    write_atomic(os.path.join(here, "server-key.pem"), _pem(key))
    write_atomic(os.path.join(here, "server.pem"), certificate.public_bytes(serialization.Encoding.PEM))
    return LocalAuthority(
        certificate=os.path.join(here, "server.pem"),
        key=os.path.join(here, "server-key.pem"),
        authority=authority.public_bytes(serialization.Encoding.DER),
        fingerprint=":".join(f"{byte:02X}" for byte in authority.fingerprint(hashes.SHA256())),
    )


def _names(names: list[str]) -> list[x509.GeneralName]:
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _constraints(names: list[str]) -> list[x509.GeneralName]:
    """What an authority may issue certificates for: a single address is a network of one."""
    from cryptography import x509

    return [
        x509.IPAddress(ipaddress.ip_network(each.value)) if isinstance(each, x509.IPAddress) else each
        for each in _names(names)
    ]


def _excluded(names: list[str]) -> list[x509.GeneralName] | None:
    """Exclude kinds of names of which none is permitted: they would be unrestricted (RFC 5280, 4.2.1.10)."""
    from cryptography import x509

    found: list[x509.GeneralName] = []
    kinds = {type(each) for each in _names(names)}
    if x509.DNSName not in kinds:
        found.append(x509.DNSName(""))
    if x509.IPAddress not in kinds:
        found += [x509.IPAddress(ipaddress.ip_network(every)) for every in ("0.0.0.0/0", "::/0")]
    return found or None


def _is_for(authority: x509.Certificate, names: list[str]) -> bool:
    from cryptography import x509

    allowed = authority.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees or []
    late = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=SERVER_DAYS)
    return set(_constraints(names)) <= set(allowed) and authority.not_valid_after_utc > late


def _authority(names: list[str]) -> tuple[x509.Certificate, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    called = _called(f"Treadle on {os.uname().nodename}")
    made = (
        _builder(called, called, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.NameConstraints(_constraints(names), _excluded(names)), critical=True)
    )
    return _signed(made, key), key


def _server(names: list[str], authority: x509.Certificate, issuer_key: Any) -> tuple[x509.Certificate, Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(_called("Treadle server"), authority.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(names)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return _signed(made, issuer_key), key


def _called(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])


def _builder(subject: x509.Name, issuer: x509.Name, public: Any, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(made: x509.CertificateBuilder, key: Any) -> x509.Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    return made.sign(key, SHA256())


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found


# What other devices are shown...

STEPS = (
    ("iPhone and iPad", "Download it in Safari and allow the profile. Settings, General, VPN & Device Management: "
     "install it. Then Settings, General, About, Certificate Trust Settings: switch it on. Last, Share, Add to Home "
     "Screen: only from there can the page send notifications."),
    ("Android", "Download it. Settings, Security, More security settings, Install from storage, CA certificate."),
    ("Firefox", "Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import."),
    ("Chrome on a computer", "Settings, Privacy and security, Security, Manage certificates, Custom, Import."),
)  # fmt: skip


async def explain(local: LocalAuthority | None, request: Request) -> Response:
    """`GET /ca`: what to do on a device that does not trust this server yet."""
    if local is None:
        return failure(NotFound("this server has no authority of its own", hint="`treadle serve --local-ca`"))
    steps = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in STEPS)
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<title>Treadle: trust this server</title><link rel="stylesheet" href="/style.css"><main class="link">'
        "<h1>Trust this server on this device</h1><p>The connection is encrypted, but your browser does not know by "
        "whom: the certificate was made on the machine that serves this page. Install its authority once, and the "
        "warning is gone and notifications work. It is good for the names of this server and nothing else.</p>"
        '<p><a class="button" href="/ca.crt">Download the authority</a></p>'
        "<p>Before you trust it, compare this fingerprint with the one that <code>treadle serve</code> printed. If "
        f"they differ, another machine is between you and it.</p><pre>{local.fingerprint}</pre>"
        f'<dl class="facts">{steps}</dl></main>'
    )


async def download(local: LocalAuthority | None, request: Request) -> Response:
    if local is None:
        return failure(NotFound("this server has no authority of its own", hint="`treadle serve --local-ca`"))
    headers = {"content-disposition": 'attachment; filename="treadle-authority.crt"'}
    return Response(local.authority, media_type="application/x-x509-ca-cert", headers=headers)


PORT = 7474


class Listening:
    """Where a server listens, and how it is reached from there."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        unix: str = "",
        names: tuple[str, ...] = (),
        tls_cert: str = "",
        tls_key: str = "",
        local_ca: bool = False,
        behind_proxy: bool = False,
    ) -> None:
        self.host, self.unix = host, unix
        self.tls = (tls_cert, tls_key or tls_cert) if tls_cert else None
        self.behind_proxy = behind_proxy
        self.names = own_names("localhost" if unix else host, names)
        if not unix and not self.tls and not behind_proxy and not local_ca and not is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines, and this would be plain text",
                hint="--tls-cert FILE, --local-ca, or --behind-proxy when a proxy on this machine does TLS",
            )
        if self.names:
            self.authority = ensure(self.names) if local_ca and not self.tls else None
            self.tls = (self.authority.certificate, self.authority.key) if self.authority else self.tls
        else:
            raise ConfigError("the host name of this server is not known", hint="--name fleet.example")
        self.socket = sockets.listen(unix, owned=True) if unix else _tcp_socket(host, port)
        self.port = 0 if unix else int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        name = next((each for each in sorted(self.names) if not is_loopback(each)), "") or self.host
        name = f"[{name}]" if ":" in name else name
        if self.behind_proxy:
            return f"https://{name}"
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}" if not self.unix else "http://localhost"


def _tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="--port N, or 0 for any that is free"
        ) from None
    made.listen(512)
    return made


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate} cannot be used: {error}") from None
    return context
