"""Which model services run on this machine."""

import pytest

from treadle.agent.providers.endpoint import loopback


@pytest.mark.parametrize(
    "url", ["http://localhost:11434/v1", "http://127.0.0.1/", "http://127.3.2.1:8080", "http://[::1]:80/v1"]
)
def test_an_address_of_this_machine(url: str) -> None:
    assert loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/v1",
        "http://localhost.example.com/",
        "http://127.0.0.1.example.com",
        "http://127.0.0.1@example.com/",
        "http://10.0.0.1/",
        "http://[::1/",
        "file:///etc/passwd",
        "",
    ],
)
def test_any_other_address_is_elsewhere(url: str) -> None:
    assert not loopback(url)
