"""What is typed into a program: never more of a line than the kernel keeps, and a stage is taken for what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.support import Stage, until
from treadle.errors import ConfigError
from treadle.terminal.client import Client
from treadle.terminal.keyboard import (
    LINE_MAX,
    check_lines,
    submit,
    type_text,
)
from treadle.wire.terminal import frames as wire


@pytest.mark.parametrize("end", [b"", b"\n", b"\r"])
def test_a_line_that_the_kernel_would_cut_is_refused(end: bytes) -> None:
    check_lines(b"x" * LINE_MAX + end)
    with pytest.raises(ConfigError, match="would be cut"):
        check_lines(b"x" * (LINE_MAX + 1) + end)


@given(st.lists(st.integers(0, LINE_MAX), max_size=4), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_any_number_of_lines_may_be_typed_if_each_fits(lengths: list[int], end: bytes) -> None:
    check_lines(end.join(b"x" * length for length in lengths))


def started(stage: Stage, script: str, says: str) -> Client:
    client = Client(stage.start("sh", "-c", script).sock, timeout=50)
    until(lambda: client.detail()["last_line"] == says)
    return client


def seen(client: Client, text: str) -> None:
    until(lambda: text in (client.detail()["last_line"] or ""))


def test_a_program_that_reads_lines_gets_no_line_that_would_be_cut(stage: Stage) -> None:
    with started(stage, "stty -echo; printf ready; exec cat", "ready") as client:
        assert client.detail()["canonical"]
        with pytest.raises(ConfigError, match="would be cut"):
            type_text(client, client.detail(), b"x" * (LINE_MAX + 1), False, False)
        with pytest.raises(ConfigError, match="would be cut"):
            submit(client, client.detail(), b"x" * (LINE_MAX + 1), wire.AT_ANY_TIME)
        assert type_text(client, client.detail(), b"typed\n", False, False) is None
        seen(client, "typed")
        refused = type_text(client, client.detail(), b"more", True, False)
        assert refused and refused["why"] in ("unknown", "starting")
        assert type_text(client, client.detail(), b"more", True, True) is None
        seen(client, "more")
