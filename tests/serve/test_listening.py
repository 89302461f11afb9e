"""Where the server may listen, and by which address it is reached."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.serve.listening import Listening, tls_context


def test_an_address_that_others_reach_needs_encryption_and_a_name() -> None:
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="by which name"):
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


def test_one_file_may_hold_certificate_and_key() -> None:
    for cert, key, tls in (("c", "", ("c", "c")), ("c", "k", ("c", "k")), ("", "", None)):
        made = Listening(port=0, tls_cert=cert, tls_key=key)
        made.socket.close()
        assert made.tls == tls


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


def test_a_socket_file_has_no_port_and_is_there(tmp_path: Path) -> None:
    path = tmp_path / "page"
    made = Listening(unix=str(path), names=("fleet.example",))
    assert made.port == 0 and path.is_socket() and made.names == {"localhost", "fleet.example"}
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(str(path))
    made.socket.close()


def test_it_listens_when_it_is_made_and_again_at_once_after_it_was_closed() -> None:
    made = Listening(port=0)
    with socket.create_connection(("127.0.0.1", made.port)) as there:
        accepted, _ = made.socket.accept()
        accepted.close()
        assert there.recv(1) == b""
    made.socket.close()
    again = Listening(port=made.port)
    again.socket.close()
    assert again.port == made.port
