import os

import msgspec
import pytest

from treadle.doors.worker.door import (
    heartbeat_seconds,
    pinned_version,
    result,
    session_spec,
    state_root,
)
from treadle.errors import ConfigError
from treadle.events import Usage
from treadle.session import Limits, Rules
from treadle.sessions.totals import totals as summed
from treadle.wire.worker.messages import InitConfig, PermissionRules, Runtime, SessionBudget

CONFIG = InitConfig(model="m", system_prompt="", tools=())
IDS = {"session_id": "s", "task_id": None, "worker_id": None}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", 5.0),
        ("250", 0.25),
        (" 70 ", 0.07),
        ("0", 5.0),
        ("1e3", 5.0),
        ("999999999", 999999.999),
        ("1000000000", 5.0),
    ],
)
def test_the_heartbeat_interval_is_in_milliseconds(given: str, seconds: float) -> None:
    warnings: list[str] = []
    assert heartbeat_seconds({"HEDDLE_HEARTBEAT_INTERVAL": given}, warnings.append) == seconds
    assert bool(warnings) == (given in ("0", "1e3", "1000000000"))


@pytest.mark.parametrize(
    ("given", "pinned"), [("", None), ("0.4.0", "0.4.0"), (" 1.2 ", "1.2"), ("newest", None), ("v0.4", None)]
)
def test_a_pinned_version_must_be_one(given: str, pinned: str | None) -> None:
    warnings: list[str] = []
    assert pinned_version({"HEDDLE_PROTOCOL_VERSION": given}, warnings.append) == pinned
    assert [given in warning for warning in warnings] == [True] * (bool(given) and pinned is None)


def test_an_own_server_is_reached_with_the_gateways_key() -> None:
    spec = session_spec(CONFIG, {"HEDDLE_BASE_URL": "http://x/v1", "OPENROUTER_API_KEY": "k"}, str)
    assert spec.env == {"OPENROUTER_BASE_URL": "http://x/v1", "OPENROUTER_API_KEY": "k"}
    assert spec.model == f"openrouter:{CONFIG.model}", "so that errors name the gateway and the variable of its key"
    assert session_spec(CONFIG, {"OPENROUTER_API_KEY": "k"}, str).env == {}


@pytest.mark.parametrize("cwd", ["relative", "/no/such/directory"])
def test_a_working_directory_must_be_there(cwd: str) -> None:
    config = InitConfig(model="m", system_prompt="", tools=(), capabilities=("cwd",), cwd=cwd)
    with pytest.raises(ConfigError, match=cwd):
        session_spec(config, {}, str)


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        (Runtime(mode="isolated"), "runtime.state_root is missing"),
        (Runtime(mode="isolated", state_root="here"), "runtime.state_root must be an absolute path"),
        (Runtime(transcript_path="t.jsonl"), "runtime.transcript_path must be an absolute path"),
        (Runtime(mode="isolated", state_root="/x", inherit_ambient_config=True), "no settings but those"),
        (Runtime(state_root="/x"), "for the mode isolated"),
        (Runtime(transcript_path="/x/t.jsonl"), "transcript_path cannot be chosen"),
    ],
)
def test_a_runtime_that_cannot_be_kept_is_refused(runtime: Runtime, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        state_root(msgspec.structs.replace(CONFIG, runtime=runtime))


def test_the_usage_of_a_result_names_the_last_reply_to_clients_that_know_the_field() -> None:
    summary = summed(
        Usage(input_tokens=1, output_tokens=1, request_id=name, parent=parent)
        for name, parent in (("gen-1", None), ("gen-2", None), ("gen-3", "task-1"))
    )
    told, older = result("2", summary, (0, 3), IDS).usage, result("2", summary, (0, 2), IDS).usage
    assert told is not None and told.generation_id == "gen-2"
    assert older is not None and older.generation_id is None


def test_what_is_asked_for_is_in_the_spec_and_what_is_not_declared_is_warned_about() -> None:
    warnings: list[str] = []
    permissions = PermissionRules(allow=("a",), ask=("b",), deny=("c",))
    budget = SessionBudget(max_cost_usd=0.5, max_tokens=9, max_seconds=3)
    config = InitConfig(
        model="m",
        system_prompt="be brief",
        tools=("bash", "write_file", "edit_file"),
        max_iterations=1,
        permissions=permissions,
        budget=budget,
        resume="r",
        approval_mode="plan",
        cwd="/",
    )
    ignored = session_spec(config, {}, warnings.append)
    names = ("approval_mode", "permissions", "budget", "cwd", "resume")
    assert warnings == [f"config.{name} is ignored, as config.capabilities does not name it" for name in names]
    assert (ignored.rules, ignored.limits, ignored.start.resume) == (Rules(), Limits(max_iterations=1), None)
    assert ignored.cwd == os.getcwd() and ignored.answers is False
    declared = msgspec.structs.replace(config, capabilities=(*names, "answers"))
    spec = session_spec(declared, {"HEDDLE_APPROVAL_MODE": "auto-edit"}, warnings.append)
    assert len(warnings) == 5 and (spec.cwd, spec.mode, spec.start.resume, spec.answers) == ("/", "plan", "r", True)
    assert spec.rules == Rules(allow=("a",), ask=("b",), deny=("c",))
    assert spec.limits == Limits(max_iterations=1, max_cost_usd=0.5, max_tokens=9, max_seconds=3)
    assert spec.instructions.system == "be brief" and session_spec(CONFIG, {}, str).instructions.system is None
    assert spec.routine == ("iterations", "toolset") and session_spec(CONFIG, {}, str).routine == ("iterations",)
    assert spec.extra == {"grace": 0.8, "strict_repeats": True} and spec.tools.offered == config.tools


@pytest.mark.parametrize(
    ("model", "environ", "found"),
    [
        ("m", {"HEDDLE_MODEL": "other"}, "m"),
        ("", {"HEDDLE_MODEL": "other"}, "other"),
        ("", {}, None),
        ("", {"HEDDLE_BASE_URL": "http://x"}, None),
        ("m", {"HEDDLE_BASE_URL": " "}, "m"),
        ("anthropic:m", {"HEDDLE_BASE_URL": "http://x"}, "anthropic:m"),
        ("vendor/m", {"HEDDLE_BASE_URL": "http://x"}, "openrouter:vendor/m"),
    ],
)
def test_the_model_is_the_clients_or_the_environments_and_of_the_gateway_where_there_is_one(
    model: str, environ: dict[str, str], found: str | None
) -> None:
    spec = session_spec(msgspec.structs.replace(CONFIG, model=model), environ, str)
    assert spec.model == found
    base = environ.get("HEDDLE_BASE_URL", "").strip()
    assert spec.env == ({"OPENROUTER_BASE_URL": base} if base else {})


def test_a_limit_of_no_iterations_and_an_unknown_mode_are_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError) as refused:
        session_spec(msgspec.structs.replace(CONFIG, max_iterations=0), {}, str)
    assert refused.value.hint == "it must be at least 1"
    with pytest.raises(ConfigError, match="HEDDLE_APPROVAL_MODE is 'wild'") as refused:
        session_spec(CONFIG, {"HEDDLE_APPROVAL_MODE": "wild"}, str)
    assert "auto-edit" in str(refused.value.hint)
