"""Where the server may listen, by which address it is reached, and certificates of this machine's own authority."""

import asyncio
import datetime
import os
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.serve.conftest import StartWeb
from treadle.errors import ConfigError, TreadleError
from treadle.serve import listening
from treadle.serve.listening import Listening, _pem, ensure, tls_context


def test_an_address_that_others_reach_needs_encryption_and_a_name() -> None:
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="the host name of this server is not known"):
        Listening(host="0.0.0.0", port=0, behind_proxy=True)
    proxied = Listening(host="127.0.0.1", port=0, behind_proxy=True, names=("fleet.example",))
    proxied.socket.close()
    assert proxied.address == "https://fleet.example"
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0, names=("fleet.example",))


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "http://127.0.0.1:{port}"),
        ({"host": "::1"}, "http://[::1]:{port}"),
        ({"names": ("fleet.example",)}, "http://fleet.example:{port}"),
        ({"tls_cert": "both.pem"}, "https://127.0.0.1:{port}"),
        ({"host": "0.0.0.0", "tls_cert": "c.pem", "names": ("fleet.example",)}, "https://fleet.example:{port}"),
        ({"behind_proxy": True}, "https://127.0.0.1"),
        ({"host": "0.0.0.0", "behind_proxy": True, "names": ("fleet.example",)}, "https://fleet.example"),
        ({"unix": "socket"}, "http://localhost"),
        ({"unix": "socket", "host": "0.0.0.0"}, "http://localhost"),
    ],
)
def test_the_address_is_how_browsers_reach_it(
    options: dict[str, Any], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Listening(port=0, **options)
    made.socket.close()
    assert made.address == address.format(port=made.port)
    assert ("localhost" in made.names) == ("0.0.0.0" not in options.values() or "unix" in options)


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{port}: Address already in use \(--port N"):
            Listening(port=port)


def test_an_authority_of_this_machine_makes_the_certificate_unless_there_is_one(tmp_path: Path) -> None:
    made = Listening(host="0.0.0.0", port=0, local_ca=True, names=("fleet.example",))
    made.socket.close()
    assert made.authority is not None and made.tls == (made.authority.certificate, made.authority.key)
    assert made.address == f"https://fleet.example:{made.port}" and made.port
    given = Listening(port=0, local_ca=True, tls_cert="c", tls_key="k")
    given.socket.close()
    assert given.authority is None and given.tls == ("c", "k")
    plain = Listening(port=0)
    plain.socket.close()
    assert plain.authority is None and plain.tls is None
    context = tls_context(*made.tls)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    for wrong in ((str(tmp_path / "none"), made.tls[1]), (made.tls[1], made.tls[0])):
        with pytest.raises(ConfigError, match=f"the certificate {wrong[0]} cannot be used"):
            tls_context(*wrong)


async def test_who_trusts_the_authority_trusts_the_server_and_its_page_explains_it(
    serving: StartWeb, tmp_path: Path
) -> None:
    options = {"host": "127.0.0.1", "local_ca": True, "names": ("fleet.example",)}
    authority = ensure({"127.0.0.1", "::1", "localhost", "fleet.example"})
    web = await serving(terminals=str(tmp_path), listening=options, authority=authority)
    assert web.address.startswith("https://fleet.example:")
    address = f"https://127.0.0.1:{web.listening.port}"
    trusting = ssl.create_default_context(cadata=authority.authority)
    async with httpx2.AsyncClient(base_url=address, verify=trusting, timeout=60, trust_env=False) as phone:
        shown = await phone.get("/ca")
        assert authority.fingerprint in shown.text and "iPhone" in shown.text
        file = await phone.get("/ca.crt")
        assert file.content == authority.authority and "treadle-authority.crt" in file.headers["content-disposition"]
    async with httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False) as stranger:
        with pytest.raises(httpx2.ConnectError):
            await stranger.get("/ca")


def test_the_authority_stays_while_the_names_do_and_is_good_for_no_other() -> None:
    first = ensure(["192.168.1.5", "fleet.example"])
    again = ensure(["192.168.1.5"])
    assert again.fingerprint == first.fingerprint
    assert os.stat(again.key).st_mode & 0o077 == 0
    kept = x509.load_der_x509_certificate(first.authority)
    limits = kept.extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical and {str(each.value) for each in limits.value.permitted_subtrees or ()} == {
        "192.168.1.5/32",
        "fleet.example",
    }
    assert ensure(["other.example"]).fingerprint != first.fingerprint


def test_each_certificate_says_what_it_is_for_and_for_how_long() -> None:
    made = ensure(["fleet.example", "10.0.0.1"])
    assert made.fingerprint.count(":") == 31
    authority = x509.load_der_x509_certificate(made.authority)
    server = x509.load_pem_x509_certificate(Path(made.certificate).read_bytes())
    assert server.issuer == authority.subject != server.subject and "Treadle on" in authority.subject.rfc4514_string()
    for each, signs, days in ((authority, True, 3650), (server, False, 397)):
        found = each.extensions
        basic = found.get_extension_for_class(x509.BasicConstraints)
        assert basic.critical and (basic.value.ca, basic.value.path_length) == (signs, 0 if signs else None)
        usage = found.get_extension_for_class(x509.KeyUsage)
        assert usage.critical and (usage.value.key_cert_sign, usage.value.crl_sign) == (signs, signs)
        assert usage.value.digital_signature is not signs
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        assert not any(getattr(usage.value, name) for name in others)
        assert not found.get_extension_for_class(x509.SubjectKeyIdentifier).critical
        left = each.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        assert datetime.timedelta(days=days - 1) < left <= datetime.timedelta(days=days)
        assert each.not_valid_before_utc < datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=59)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical and names.value.get_values_for_type(x509.DNSName) == ["fleet.example"]
    purposes = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert not purposes.critical and list(purposes.value) == [x509.ExtendedKeyUsageOID.SERVER_AUTH]
    issuer = server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    assert not issuer.critical and issuer.value.key_identifier == own.value.digest


def test_an_authority_that_would_end_before_its_next_certificate_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "AUTHORITY_DAYS", listening.SERVER_DAYS)
    first = ensure(["fleet.example"])
    monkeypatch.undo()
    second = ensure(["fleet.example"])
    assert second.fingerprint != first.fingerprint == first.fingerprint.upper()
    assert ensure(["fleet.example"]).fingerprint == second.fingerprint


@pytest.mark.parametrize(("names", "forged"), [(["127.0.0.1"], "bank.example"), (["fleet.example"], "127.0.0.1")])
def test_a_stolen_authority_makes_no_certificate_that_others_believe(names: list[str], forged: str) -> None:
    authority, key = listening._authority(names)
    good, good_key = listening._server(names, authority, key)
    bad, bad_key = listening._server([forged], authority, key)
    for certificate, its_key, name, believed in ((good, good_key, names[0], True), (bad, bad_key, forged, False)):
        assert _handshake(authority, certificate, its_key, name) is believed


def _handshake(authority: x509.Certificate, certificate: x509.Certificate, key: Any, name: str) -> bool:
    """Whether a client that trusts this authority believes this certificate, by OpenSSL's own rules."""
    directory = Path(os.environ["HOME"])
    (directory / "c.pem").write_bytes(certificate.public_bytes(Encoding.PEM) + _pem(key))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "c.pem")
    client = ssl.create_default_context(cadata=authority.public_bytes(Encoding.DER))
    ends = [ssl.MemoryBIO() for _ in range(2)]
    there = server.wrap_bio(ends[0], ends[1], server_side=True)
    here = client.wrap_bio(ends[1], ends[0], server_hostname=name)
    for _ in range(10):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


async def test_a_server_without_one_says_so(serving: StartWeb, tmp_path: Path) -> None:
    web = await serving(terminals=str(tmp_path))
    for path in ("/ca", "/ca.crt"):
        response = await web.http.get(path)
        assert response.status_code == 404 and "--local-ca" in response.text
    with pytest.raises(TreadleError, match="--local-ca"):
        await asyncio.to_thread(Listening, host="0.0.0.0", port=0)
