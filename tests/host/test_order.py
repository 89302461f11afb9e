"""Orders and policies as people write them."""

import json
from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.host.order import make_order, merged, parse_requirement, read_policy
from treadle.wire.sidecar.connection import NO_POLICY


def test_an_order_has_everything_and_ids_of_its_own(tmp_path: Path) -> None:
    one, other = make_order("t", str(tmp_path)), make_order("t", str(tmp_path))
    assert one.id != other.id and one.policy == NO_POLICY and one.workspace.root == str(tmp_path)


@pytest.mark.parametrize("task", ["", "  \n", "x" * 100_001])
def test_a_task_must_say_something(task: str) -> None:
    with pytest.raises(ConfigError, match="task"):
        make_order(task, ".")


def test_requirements_are_written_with_an_equals_sign() -> None:
    assert parse_requirement("tool_bash=native").min_support == "native"
    assert parse_requirement("tool-bash").capability == "tool_bash"
    for text in ("telepathy", "tool_bash=superb"):
        with pytest.raises(ConfigError):
            parse_requirement(text)


def test_a_policy_may_leave_lists_out_but_not_misspell_them(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"deny_read": [".env"]}))
    assert read_policy(str(path)).deny_read == [".env"] and read_policy(str(path)).allowed_tools == []
    toml = tmp_path / "p.toml"
    toml.write_text('deny_write = ["**/.git/**"]\n')
    assert read_policy(str(toml)).deny_write == ["**/.git/**"]
    for text in ('{"deny_reads": []}', '{"deny_read": ".env"}', "[]", "{", '{"deny_read": [""]}'):
        path.write_text(text)
        with pytest.raises(ConfigError):
            read_policy(str(path))


def test_policies_together_forbid_what_any_forbids(tmp_path: Path) -> None:
    from msgspec.structs import replace

    one = replace(NO_POLICY, disallowed_tools=["Bash"], allowed_tools=["Read", "Write"])
    other = replace(NO_POLICY, disallowed_tools=["Web"], allowed_tools=["Read"])
    both = merged([one, other])
    assert both.disallowed_tools == ["Bash", "Web"] and both.allowed_tools == ["Read"]
    with pytest.raises(ConfigError, match="nothing in common"):
        merged([one, replace(NO_POLICY, allowed_tools=["Glob"])])
    assert merged([]) == NO_POLICY
