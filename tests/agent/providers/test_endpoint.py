"""Which model services run on this machine."""

import pytest

from treadle.agent.providers.http import Endpoint, loopback


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


def test_no_service_is_believed_to_report_costs_unless_that_is_known() -> None:
    assert not Endpoint(name="x", base_url="https://x.example").reports_cost


def test_what_is_printed_of_a_service_has_no_key() -> None:
    made = Endpoint(name="x", base_url="https://me:secret@x.example/v1", key="sk-secret", headers={"x-key": "secret"})
    assert "secret" not in repr(made) and "x.example" in repr(made)
