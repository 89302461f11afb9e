from importlib.resources import files

import pytest

from treadle.errors import VersionMismatch
from treadle.wire.worker.versions import PROTOCOL_VERSION, capabilities, negotiate


def test_the_version_file_says_what_the_code_says() -> None:
    assert files("treadle.wire.worker").joinpath("PROTOCOL_VERSION").read_text() == PROTOCOL_VERSION + "\n"


@pytest.mark.parametrize(
    ("requested", "pinned", "spoken"),
    [
        (None, None, ("0.2.0", (0, 2))),
        ("0.2.0", None, ("0.2.0", (0, 2))),
        ("0.2.9", None, ("0.2.0", (0, 2))),
        ("0.1.0", None, ("0.2.0", (0, 2))),
        ("0", None, ("0.2.0", (0, 2))),
        ("0.4.0", None, ("0.4.0", (0, 4))),
        ("0.5.0-rc.1", None, ("0.5.0", (0, 5))),
        ("0.99.0", None, ("0.5.0", (0, 5))),
        (None, "0.4.0", ("0.4.0", (0, 2))),
        ("0.5.0", "0.3.0", ("0.3.0", (0, 3))),
        ("2.1.0", "2.0.0", ("2.0.0", (2, 0))),
    ],
)
def test_a_client_of_the_same_major_is_spoken_to_in_its_own_version(
    requested: str | None, pinned: str | None, spoken: tuple[str, tuple[int, int]]
) -> None:
    assert negotiate(requested, pinned) == spoken


@pytest.mark.parametrize("requested", ["1.0.0", "", "abc", "v0.2.0", "0.x", "-1.0", "٠.٢", "0." + "9" * 5000])
def test_another_major_or_an_unreadable_version_is_refused_by_name(requested: str) -> None:
    with pytest.raises(VersionMismatch) as caught:
        negotiate(requested)
    assert caught.value.message == f"Client requested {requested}, server is 0.2.0"


def test_what_the_worker_can_do_is_told_to_those_who_know_the_word() -> None:
    assert capabilities(("b", "a"), (), (0, 4)) is None
    told = capabilities(("b", "a"), (), (0, 5))
    assert told is not None and told["enabled_tools"] == ["a", "b"] and "extensions" not in told
    assert capabilities(("b", "a"), ("steer", "telepathy"), (0, 2)) == {"extensions": ["steer"]}
