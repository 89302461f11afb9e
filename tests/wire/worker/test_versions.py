import re
from importlib.resources import files

import msgspec
import pytest

from treadle.errors import VersionMismatch
from treadle.wire.worker.messages import InitConfig, PermissionRules, Runtime
from treadle.wire.worker.versions import PROTOCOL_VERSION, capabilities, negotiate, profile


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


def test_sessions_that_are_set_up_alike_have_the_same_fingerprint() -> None:
    config = InitConfig(model="m", system_prompt="", tools=("a",), max_iterations=3)
    told = profile(config, ("b", "a"), (0, 5))
    assert told is not None and told["model"] == "m" and re.fullmatch(r"sha256:[0-9a-f]{64}", told["fingerprint"])
    assert told == profile(config, ("a", "b"), (0, 5)) and profile(config, ("a",), (0, 4)) is None
    for other in ({"model": "n"}, {"max_iterations": 4}, {"runtime": Runtime(mode="isolated", state_root="/x")}):
        assert profile(msgspec.structs.replace(config, **other), ("b", "a"), (0, 5)) != told


def test_a_worker_promises_what_it_keeps() -> None:
    told = capabilities((), (), (0, 5))
    assert told == {
        "enabled_tools": [],
        "explicit_tool_allowlist": True,
        "runtime_modes": ["default"],
        "transcript_placement": False,
        "failure_details_version": "v2",
        "routing_request_metadata": False,
        "effective_routing_metadata": False,
        "cache_usage_metrics": True,
        "cancellation": True,
        "turn_state_events": True,
    }
    assert capabilities((), (), (1, 0)) == told and capabilities((), ("x",), (0, 2)) == {"extensions": []}


def test_rules_make_another_profile_only_where_they_were_asked_for() -> None:
    config = InitConfig(model="m", system_prompt="", tools=(), permissions=PermissionRules(deny=("x",)))
    asked = msgspec.structs.replace(config, capabilities=("permissions",))
    plain = msgspec.structs.replace(config, permissions=None)
    assert profile(config, (), (0, 5)) == profile(plain, (), (0, 5)) != profile(asked, (), (0, 5))
    assert profile(msgspec.structs.replace(plain, capabilities=("permissions",)), (), (0, 5)) == profile(
        plain, (), (0, 5)
    )
