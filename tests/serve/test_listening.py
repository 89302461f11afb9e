"""Where the server may listen, and by which address it is reached."""

import socket

import pytest

from treadle.errors import ConfigError
from treadle.serve.listening import Listening


def test_an_address_that_others_reach_needs_encryption_and_a_name() -> None:
    with pytest.raises(ConfigError, match="plain text"):
        Listening(host="0.0.0.0", port=0)
    with pytest.raises(ConfigError, match="by which name"):
        Listening(host="0.0.0.0", port=0, behind_proxy=True)
    proxied = Listening(host="127.0.0.1", port=0, behind_proxy=True, names=("fleet.example",))
    proxied.socket.close()
    assert proxied.address == "https://fleet.example"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            Listening(port=taken.getsockname()[1])
