"""Where the server may listen, and by which address it is reached."""

import socket
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.serve.listening import Listening, tls_context


def test_an_address_that_others_reach_needs_encryption_and_a_name() -> None:
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="this server needs a host name"):
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


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("nothing")
    for wrong in (str(tmp_path / "none"), str(tmp_path / "c.pem")):
        with pytest.raises(ConfigError, match=f"the certificate {wrong} cannot be used"):
            tls_context(wrong, wrong)
