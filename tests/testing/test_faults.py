import pytest

from treadle.agent.providers.script import ErrorLine
from treadle.errors import ConfigError
from treadle.testing.faults import chunk, parse


def test_a_fault_is_written_as_a_name_a_status_or_ok() -> None:
    assert parse("cut") == "cut"
    assert parse("ok") is None
    assert parse("500") == ErrorLine(status=500, message="a fault was asked for")
    assert parse("429:1.5") == ErrorLine(status=429, message="a fault was asked for", retry_after=1.5)


@pytest.mark.parametrize("text", ["sneeze", "200", "429:soon", ""])
def test_an_unknown_fault_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError, match="one of: ok, 429:SECONDS, 500, cut,"):
        parse(text)


def test_a_chunk_says_its_length() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
