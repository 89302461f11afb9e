"""What a client of Codex says, in our terms."""

import base64
from pathlib import Path
from typing import Any

import pytest

from treadle.doors.codex.door import prompt_of, terms
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
