"""What a client of Codex says of a thread and a turn, in our terms. What has no meaning here is refused or named."""

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from treadle.errors import TreadleError
from treadle.io.reading import read
from treadle.session import Effort, Mode, Prompt, Reasoning, SessionSpec
from treadle.wire.common.images import decoded
from treadle.wire.common.jsonrpc import INVALID_REQUEST, Fault

POLICIES = ("untrusted", "on-request", "never")
SANDBOXES = {"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access"}
_MODES: dict[str, Mode] = {"read-only": "suggest", "workspace-write": "full-auto", "danger-full-access": "yolo"}
_SANDBOX: dict[Mode, str] = {
    "full-auto": "workspace-write",
    "auto-edit": "workspace-write",
    "yolo": "danger-full-access",
}
_SERVER_KEYS = {"command", "args", "env", "cwd", "url"}
NOT_USED = ("modelProvider", "serviceTier", "personality", "serviceTierForTurn")
"""Fields that choose among what only Codex has."""
USED = ("mcp_servers", "model_reasoning_effort")
AS_SET = "default"
"""The effort of the settings."""
REFUSED = {
    "dynamicTools": "tools of the client are not offered here",
    "environments": "other environments are not offered here",
    "lastTurnId": "a copy up to an earlier turn is not offered here",
    "toolOutput": "results of the client's own tools are not offered here",
    "outputSchema": "an answer by a schema is not offered here: `treadle exec --output-schema` does that",
}


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread may do without a question, as the client said it."""

    mode: Mode
    policy: str
    sandbox: str

    @property
    def asks(self) -> bool:
        return self.policy != "never"

    def as_policy(self) -> dict[str, Any]:
        """The sandbox as the answers to a client have it."""
        kind = next(name for name, ours in SANDBOXES.items() if ours == self.sandbox)
        more: dict[str, Any] = {"networkAccess": False} if kind == "readOnly" else {}
        if kind == "workspaceWrite":
            more = {"writableRoots": [], "networkAccess": False, "excludeTmpdirEnvVar": False, "excludeSlashTmp": False}
        return {"type": kind, **more}


def terms(params: dict[str, Any], before: Terms | Mode) -> Terms:
    """`before` holds for what the client does not say."""
    policy, sandbox = params.get("approvalPolicy"), _sandbox(params)
    if isinstance(before, str):
        before = Terms(mode=before, policy="on-request", sandbox=_SANDBOX.get(before, "read-only"))
    if policy is None and sandbox is None:
        return before
    if isinstance(policy, dict):
        policy = "on-request"
    if policy is not None and policy not in POLICIES:
        raise refused(f"there is no approvalPolicy {policy!r}")
    policy, sandbox = policy or before.policy, sandbox or before.sandbox
    mode: Mode = "suggest" if policy == "untrusted" else _MODES[sandbox]
    return Terms(mode=mode, policy=policy, sandbox=sandbox)


def _sandbox(params: dict[str, Any]) -> str | None:
    given = params.get("sandbox")
    policy = params.get("sandboxPolicy")
    if isinstance(policy, dict):
        given = SANDBOXES.get(str(policy.get("type")), policy.get("type"))
    if given is not None and given not in _MODES:
        raise refused(f"the sandbox {given!r} is not offered here")
    return given


def not_used(params: dict[str, Any]) -> Iterator[str]:
    """What the client asks for and does not get, as sentences."""
    config = params.get("config")
    names = [name for name in NOT_USED if params.get(name) is not None]
    names += [f"config.{key}" for key in (config if isinstance(config, dict) else {}) if key not in USED]
    if names:
        yield f"not used here: {', '.join(names)}"
    if params.get("approvalsReviewer") not in (None, "user"):
        yield "no model decides about approvals here: you are asked, as with approvalsReviewer user"
    policy = params.get("sandboxPolicy")
    if isinstance(policy, dict) and policy.get("writableRoots"):
        yield "writableRoots is not used here: directories are added with --add-dir or in the settings"
    if isinstance(policy, dict) and policy.get("networkAccess") not in (None, False, "restricted"):
        yield "networkAccess is not used here: --network and the settings say what commands may reach"


def refuse(params: dict[str, Any]) -> None:
    for name, why in REFUSED.items():
        if params.get(name):
            raise refused(why)


def spec_of(params: dict[str, Any], base: SessionSpec, agreed: Terms) -> SessionSpec:
    """The session that a client asks for with `thread/start` and the like."""
    given = params.get("config")
    config = given if isinstance(given, dict) else {}
    servers = config.get("mcp_servers")
    table = {str(name): _server(entry) for name, entry in servers.items()} if isinstance(servers, dict) else {}
    instructions = base.instructions
    return msgspec.structs.replace(
        base,
        mode=agreed.mode,
        model=_text(params, "model") or base.model,
        instructions=msgspec.structs.replace(
            instructions,
            system=_text(params, "baseInstructions") or instructions.system,
            append=_text(params, "developerInstructions") or instructions.append,
        ),
        tools=msgspec.structs.replace(base.tools, servers={**base.tools.servers, **table}),
        thinking=effort(config.get("model_reasoning_effort")) or base.thinking,
        answers=True,
    )


def effort(given: Any) -> Reasoning | None:
    if given in (None, AS_SET):
        return None
    if given not in get_args(Effort):
        raise refused(f"there is no effort {given!r}: {', '.join(get_args(Effort))}")
    return Reasoning(effort=given)


def prompt_of(given: Any) -> Prompt:
    """The prompt of a turn. An input that cannot be given to an agent is refused."""
    texts: list[str] = []
    images: list[bytes] = []
    for part in given if isinstance(given, list) else []:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "url": str(url)} if url.startswith("data:"):
                images.append(decoded(url.partition(",")[2]))
            case {"type": "localImage", "path": str(path)}:
                images.append(_file(path))
            case {"type": "mention", "name": str(name), "path": str(path)}:
                texts.append(f"[{name}: {path}]")
            case _:
                kind = part.get("type") if isinstance(part, dict) else part
                raise refused(f"an input of type {kind!r} is not offered here")
    text = "\n".join(texts)
    if not text.strip() and not images:
        raise refused("the input is empty")
    return Prompt(text=text, images=tuple(images))


def refused(why: str) -> Fault:
    """Codex has one code for everything that it refuses."""
    return Fault(INVALID_REQUEST, why)


def _file(path: str) -> bytes:
    try:
        return read(path)
    except TreadleError as error:
        raise refused(str(error)) from error


def _server(entry: Any) -> dict[str, Any]:
    table = entry if isinstance(entry, dict) else {}
    found = {key: value for key, value in table.items() if key in _SERVER_KEYS}
    if isinstance(table.get("http_headers"), dict):
        found["headers"] = table["http_headers"]
    return found


def _text(params: dict[str, Any], name: str) -> str | None:
    given = params.get(name)
    return given if isinstance(given, str) and given else None
