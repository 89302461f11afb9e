"""Commands inside a sandbox without the way out: a hook refuses the call, and nothing is done here instead."""

import io
import json
import sys
from pathlib import Path

import pytest

from treadle.cli.heimdall import UsageError, inside
from treadle.coordination.relaying import LARGEST
from treadle.errors import ConfigError, TreadleError

WRITE = {"tool_name": "Write", "tool_input": {"file_path": "src/a/x"}, "hook_event_name": "PreToolUse"}


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_hook_that_cannot_ask_outside_refuses_the_call(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, json.dumps(WRITE).encode())
    code = inside.relay("hook", ["claude"], str(project))
    text = "".join(capsys.readouterr())
    assert code == 2 or '"deny"' in text, "a program lets a call go on when its hook only fails"


@pytest.mark.parametrize("name", ["claim", "validate", "blackboard"])
def test_any_other_command_says_why_it_cannot(project: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, b"{}")
    with pytest.raises(TreadleError):
        inside.relay(name, [], str(project))


def test_input_without_end_is_not_passed_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, b"x" * LARGEST)
    with pytest.raises(ConfigError, match="MiB, which is not passed out"):
        inside.relay("validate", [], str(project))


def test_the_ledger_server_does_not_listen_on_a_port_inside(project: Path) -> None:
    with pytest.raises(UsageError, match="standard input and output only"):
        inside.relay("ledger-mcp", ["--http"], str(project))
