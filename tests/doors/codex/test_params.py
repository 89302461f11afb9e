"""What a client of Codex says, in our terms."""

import base64
from pathlib import Path
from typing import Any

import pytest

from treadle.doors.codex.door import effort, not_used, prompt_of, refuse, spec_of, terms
from treadle.session import Reasoning, SessionSpec
from treadle.wire.common.jsonrpc import Fault


@pytest.mark.parametrize(
    ("params", "mode", "asks"),
    [
        ({}, "plan", True),
        ({"approvalPolicy": "never", "sandbox": "read-only"}, "suggest", False),
        ({"approvalPolicy": "never", "sandbox": "danger-full-access"}, "yolo", False),
        ({"approvalPolicy": "on-request", "sandbox": "workspace-write"}, "full-auto", True),
        ({"approvalPolicy": {"granular": {}}, "sandboxPolicy": {"type": "workspaceWrite"}}, "full-auto", True),
        ({"approvalPolicy": "untrusted", "sandbox": "danger-full-access"}, "suggest", True),
        ({"sandboxPolicy": {"type": "readOnly"}}, "suggest", True),
    ],
)
def test_policy_and_sandbox_are_a_mode(params: dict[str, Any], mode: str, asks: bool) -> None:
    agreed = terms(params, "plan")
    assert (agreed.mode, agreed.asks) == (mode, asks)
    assert terms({}, agreed) == agreed and agreed.as_policy()["type"] in (
        "readOnly",
        "workspaceWrite",
        "dangerFullAccess",
    )


@pytest.mark.parametrize(
    "params",
    [{"approvalPolicy": "sometimes"}, {"sandbox": "open"}, {"sandboxPolicy": {"type": "externalSandbox"}}],
)
def test_a_policy_that_we_do_not_know_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(Fault):
        terms(params, "suggest")


@pytest.mark.parametrize("name", ["dynamicTools", "outputSchema", "toolOutput", "lastTurnId", "environments"])
def test_what_is_not_offered_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(Fault, match="not offered"):
        refuse({name: ["x"]})
    refuse({name: None})


def test_what_is_not_used_is_named() -> None:
    roots = {"type": "workspaceWrite", "writableRoots": ["/x"], "networkAccess": True}
    given = {"serviceTier": "fast", "config": {"mcp_servers": {}, "tools.web_search": True}, "sandboxPolicy": roots}
    first, *rest = not_used({**given, "approvalsReviewer": "auto_review"})
    assert first == "not used here: serviceTier, config.tools.web_search" and len(rest) == 3
    assert list(not_used({"approvalsReviewer": "user", "config": None, "summary": "auto"})) == []


def test_a_thread_is_opened_as_the_client_wants() -> None:
    config = {
        "mcp_servers": {"n": {"command": "x", "startup_timeout_sec": 3}, "h": {"url": "u", "http_headers": {"a": "b"}}},
        "model_reasoning_effort": "low",
    }
    params = {"model": "m", "baseInstructions": "be", "developerInstructions": "kind", "config": config}
    spec = spec_of(params, SessionSpec(cwd="/", model="own"), terms({}, "plan"))
    assert (spec.model, spec.mode, spec.answers, spec.thinking) == ("m", "plan", True, Reasoning(effort="low"))
    assert (spec.instructions.system, spec.instructions.append) == ("be", "kind")
    assert spec.tools.servers == {"n": {"command": "x"}, "h": {"url": "u", "headers": {"a": "b"}}}
    assert spec_of({}, SessionSpec(cwd="/", model="own"), terms({}, "plan")).model == "own"


def test_an_effort_is_one_that_there_is() -> None:
    assert effort(None) is None and effort("default") is None
    with pytest.raises(Fault, match="no effort"):
        effort("huge")


def test_texts_mentions_and_images_are_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "i.png").write_bytes(b"two")
    url = "data:image/png;base64," + base64.b64encode(b"one").decode()
    given = [
        {"type": "text", "text": "look"},
        {"type": "mention", "name": "a", "path": "/a"},
        {"type": "image", "url": url},
        {"type": "localImage", "path": str(tmp_path / "i.png")},
    ]
    prompt = prompt_of(given)
    assert (prompt.text, prompt.images) == ("look\n[a: /a]", (b"one", b"two"))


@pytest.mark.parametrize(
    "given",
    [
        [],
        None,
        [{"type": "text", "text": " "}],
        [{"type": "skill", "name": "x", "path": "/x"}],
        [{"type": "image", "url": "https://x/i.png"}],
        [{"type": "localImage", "path": "/no/such"}],
        ["x"],
    ],
)
def test_an_input_that_cannot_be_given_to_an_agent_is_refused(given: Any) -> None:
    with pytest.raises(Fault):
        prompt_of(given)


def test_the_sandbox_is_told_in_the_form_of_codex() -> None:
    for mode, policy in (
        ("suggest", {"type": "readOnly", "networkAccess": False}),
        ("yolo", {"type": "dangerFullAccess"}),
        (
            "auto-edit",
            {
                "type": "workspaceWrite",
                "writableRoots": [],
                "networkAccess": False,
                "excludeTmpdirEnvVar": False,
                "excludeSlashTmp": False,
            },
        ),
    ):
        agreed = terms({}, mode)  # type: ignore[arg-type]
        assert agreed.as_policy() == policy and (agreed.mode, agreed.policy) == (mode, "on-request")
    before = terms({"approvalPolicy": "never", "sandbox": "danger-full-access"}, "plan")
    after = terms({"sandbox": "read-only"}, before)
    assert (after.policy, after.sandbox, after.mode) == ("never", "read-only", "suggest")
    again = terms({"approvalPolicy": "on-request"}, before)
    assert (again.policy, again.sandbox, again.mode) == ("on-request", "danger-full-access", "yolo")


def test_only_what_is_asked_for_and_not_given_is_named() -> None:
    for quiet in (
        {"sandboxPolicy": {"type": "workspaceWrite", "writableRoots": [], "networkAccess": False}},
        {"sandboxPolicy": {"networkAccess": "restricted"}},
        {"config": {"model_reasoning_effort": "low"}},
        {"modelProvider": None},
        {},
    ):
        assert list(not_used(quiet)) == []
    assert list(not_used({"sandboxPolicy": {"writableRoots": ["/x"]}}))[0].startswith("writableRoots is not used")
    assert list(not_used({"sandboxPolicy": {"networkAccess": True}}))[0].startswith("networkAccess is not used")
    assert "you are asked" in list(not_used({"approvalsReviewer": "auto"}))[0]


def test_what_is_empty_or_of_another_kind_is_as_if_it_was_not_said() -> None:
    base = SessionSpec(cwd="/", model="own", thinking=Reasoning(effort="high"))
    spec = spec_of({"model": "", "baseInstructions": 3, "config": "x"}, base, terms({}, "plan"))
    assert (spec.model, spec.instructions, spec.thinking) == ("own", base.instructions, base.thinking)
    spec = spec_of({"config": {"mcp_servers": [], "model_reasoning_effort": "default"}}, base, terms({}, "plan"))
    assert spec.tools.servers == {} and spec.thinking == base.thinking
    odd = spec_of({"config": {"mcp_servers": {"a": "x", "b": {"http_headers": "y"}}}}, base, terms({}, "plan"))
    assert odd.tools.servers == {"a": {}, "b": {}}
    assert prompt_of([{"type": "image", "url": "data:image/png;base64,b25l"}]).text == ""
    with pytest.raises(Fault, match="an input of type 'x' is not offered"):
        prompt_of(["x"])
