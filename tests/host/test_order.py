"""Orders and policies as people write them."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from treadle.errors import ConfigError
from treadle.host.order import make_order, merged, parse_requirement, read_policy
from treadle.wire.sidecar.connection import (
    NO_POLICY,
    ContextPacket,
    Requirement,
    Requirements,
    RuntimeConfig,
    WorkOrder,
    WorkspaceSpec,
)


def test_what_is_asked_for_is_in_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = replace(NO_POLICY, deny_read=["a"])
    made = make_order(
        "t",
        "sub",
        lane="workspace_first",
        include=("i",),
        exclude=("e",),
        context=("c",),
        policy=policy,
        require=("streaming",),
        model="m",
        env={"A": "b"},
        vendor={"v": 1},
        max_turns=2,
        max_budget_usd=1.5,
    )
    assert made == WorkOrder(
        id=made.id,
        task="t",
        lane="workspace_first",
        workspace=WorkspaceSpec(root=str(tmp_path / "sub"), mode="staged", include=["i"], exclude=["e"]),
        context=ContextPacket(files=["c"], snippets=[]),
        policy=policy,
        requirements=Requirements(required=[Requirement(capability="streaming", min_support="any")]),
        config=RuntimeConfig(model="m", vendor={"v": 1}, env={"A": "b"}, max_turns=2, max_budget_usd=1.5),
    )


@pytest.mark.parametrize("task", ["", "  \n", "x" * 100_001])
def test_a_task_must_say_something(task: str) -> None:
    with pytest.raises(ConfigError, match=f"a task has from 1 to 100000 characters, this one has {len(task)}"):
        make_order(task, ".")
    assert make_order("x" * 100_000, ".").task


def test_requirements_are_written_with_an_equals_sign() -> None:
    assert parse_requirement("tool_bash=native").min_support == "native"
    assert parse_requirement(" tool-bash = ") == Requirement(capability="tool_bash", min_support="any")
    with pytest.raises(ConfigError, match="there is no capability 'telepathy' .they are .*streaming"):
        parse_requirement("telepathy=native")
    with pytest.raises(ConfigError, match="'superb' is not a level of support .one of .*native"):
        parse_requirement("tool_bash=superb")


def test_a_policy_may_leave_lists_out_but_not_misspell_them(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"deny_read": [".env"]}))
    assert read_policy(str(path)).deny_read == [".env"] and read_policy(str(path)).allowed_tools == []
    toml = tmp_path / "p.toml"
    toml.write_text('deny_write = ["**/.git/**"]\n')
    assert read_policy(str(toml)).deny_write == ["**/.git/**"]
    for text, said in (
        ('{"deny_reads": []}', "p.json: .*deny_reads.*the lists are allowed_tools, "),
        ('{"deny_read": ".env"}', "p.json"),
        ("[]", "p.json is not a policy"),
        ("{", "p.json cannot be read"),
        ('{"deny_read": [""]}', "."),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_policy(str(path))
    toml.write_text("[")
    with pytest.raises(ConfigError, match="p.toml cannot be read"):
        read_policy(str(toml))


def test_policies_together_forbid_what_any_forbids(tmp_path: Path) -> None:
    one = replace(NO_POLICY, disallowed_tools=["Bash"], allowed_tools=["Read", "Write"])
    other = replace(NO_POLICY, disallowed_tools=["Web"], allowed_tools=["Read"])
    both = merged([one, other])
    assert both.disallowed_tools == ["Bash", "Web"] and both.allowed_tools == ["Read"]
    with pytest.raises(ConfigError, match="nothing in common in allowed_tools, so nothing would be allowed"):
        merged([one, replace(NO_POLICY, allowed_tools=["Glob"])])
    assert merged([one, NO_POLICY]) == one, "who names nothing leaves it to the others"
    network = [replace(NO_POLICY, allow_network=hosts, deny_write=["a", "b"]) for hosts in (["a", "b"], ["b", "c"])]
    assert merged(network) == replace(NO_POLICY, allow_network=["b"], deny_write=["a", "b"])
    assert merged([one, replace(one, disallowed_tools=["Web", "Bash"])]).disallowed_tools == ["Bash", "Web"]
    assert merged([]) == NO_POLICY
