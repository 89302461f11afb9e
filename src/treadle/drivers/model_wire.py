"""How an outside agent's model is reached: through the run's gateway, with the key outside, or by the agent itself.

The gateway is used where all that the agent needs for it is known: one base URL, and keys in its environment. A sign-in
of the agent's own, a key in its settings, or a cloud's own credentials stay inside with it; why is stated.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from treadle.agent.providers import known, names
from treadle.agent.providers.known import cost
from treadle.drivers.card import Card, WireVariables
from treadle.drivers.confined import Enclosure, in_settings, placed, read_settings
from treadle.errors import ConfigError
from treadle.io.sandbox.proxy import leads_outside
from treadle.policy.network import host_of
from treadle.redact import is_secret_name
from treadle.session import ModelWire, PortGrant, SessionSpec

if TYPE_CHECKING:  # the HTTP client is slow to import, and an agent that is used directly does not need it
    from treadle.events import Usage
    from treadle.gateway.server import ModelGateway
    from treadle.settings.config import Settings

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_OWN_KEY = re.compile(r"(?i)api_?key_?helper|api_?key|bearer_token|auth_token")
_STEPS = {"opencode": ("provider", "", "options", "baseURL"), "pi": ("providers", "", "baseUrl")}
"""Where these agents' settings have the base URL of a provider, whose name stands for the empty step."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
APART = "which stays inside, and was not tried with the vendor"
SIGNED_IN = f"it is signed in by itself (auth.json), {APART}"
OUTSIDE = ModelWire(way="gateway", key="outside")
UNCONFINED = ModelWire(
    way="gateway", why="it is not confined, so that it could read what the processes of its user hold"
)
PLACE = "{wire}"
"""Stands for the gateway's address in words and variables, until it is known."""


class WirePlan(NamedTuple):
    """How the agent is led to a gateway."""

    base_url: str
    """Where its model is."""
    keys: tuple[str, ...]
    """The variables whose values stay outside."""
    sets: dict[str, str]
    """Variables that it gets, with PLACE for the gateway's address."""
    arguments: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    """Variables that it does not get: other credentials, which it does not use with this key."""
    headers: tuple[str, ...] = ()
    """Headers in which its settings put a key, besides those that services commonly have for it."""


def planned(card: Card, spec: SessionSpec, settings: Settings, env: Mapping[str, str]) -> WirePlan | ModelWire:
    """A plan, or why the agent reaches its model by itself. Raises ConfigError when the gateway is required."""
    asked = spec.model_wire if spec.model_wire != "auto" else settings.model_wire
    asked = "gateway" if spec.record or spec.replay is not None else asked
    if asked == "direct":
        return ModelWire(key="inside", why="the gateway is switched off (model_wire)")
    found = _plan(card, env)
    if isinstance(found, str):
        if asked == "gateway":
            raise ConfigError(f"{card.name} cannot be used through the gateway: {found}", hint="--model-wire direct")
        return ModelWire(key="inside", why=found)
    return found


def _plan(card: Card, env: Mapping[str, str]) -> WirePlan | str:
    wire = card.wire
    if wire is None:
        return "which base URL and key it uses is not known"
    other = next((name for name in wire.unless if env.get(name)), "")
    if other:
        return f"{other} is set: that service's credentials are used inside"
    if wire.form == "codex":
        return _codex(card, wire, env)
    files = placed(card.settings, env)
    if wire.form == "pi" and any(read_settings(os.path.join(os.path.dirname(path), "auth.json")) for path in files):
        return SIGNED_IN
    tables = [read_settings(path) for path in files]
    named = [pair for table in tables for pair in _named(table)]
    keys = tuple(name for name in wire.keys if env.get(name))
    base = _base_of_provider(tables, wire, keys) if wire.form else ""
    other = next((name for name, value in named if value != base), "")
    if other:
        return f"its settings name {other}, which goes before its environment"
    if not keys:
        return f"none of {', '.join(wire.keys)} is set: it has a sign-in of its own, {APART}"
    if wire.form:
        return base and _unlisted(files, base) or _of_provider(wire, keys, env, base)
    base = env.get(wire.base) or wire.usual
    if not base:
        return f"{wire.base} is not set"
    return WirePlan(base, keys, {wire.base: PLACE}, removes=wire.instead)


def sign_ins(card: Card) -> str:
    """With which sign-ins its key is outside of its sandbox, and what stays inside, and why."""
    if card.wire is None:
        return "inside always: which base URL and key it uses is not known"
    also = {"codex": ", or with a provider of its settings (base_url and env_key)"}.get(card.wire.form, "")
    also = also or ("" if card.wire.usual or card.wire.form else f" and {card.wire.base}")
    others = f" or with {', '.join(card.wire.unless)}, which are another service's" if card.wire.unless else ""
    named = "" if card.wire.form == "codex" else " or a key in its settings"
    return (
        f"outside with {' or '.join(card.wire.keys)}{also};"
        f" inside with a sign-in of its own (only it can renew that){named}{others}"
    )


def _unlisted(files: Sequence[str], base: str) -> str:
    """Why an address that stands in these settings does not count; empty when it does."""
    if host_of(base) in in_settings(files, ()).counted:
        return ""
    return f"its settings name {host_of(base)}, which they did not before: allow it once with --network"


def _base_of_provider(tables: Sequence[Any], wire: WireVariables, keys: Sequence[str]) -> str:
    """The base URL of the provider that has this key, as its files say it."""
    base = ""
    for found in tables:
        for step in _STEPS[wire.form]:
            found = found.get(step or _provider(keys)) if isinstance(found, dict) else None
        base = found if isinstance(found, str) else base
    return base


def _provider(keys: Sequence[str]) -> str:
    return keys[0].partition("_")[0].lower() if len(keys) == 1 else ""


def _of_provider(wire: WireVariables, keys: tuple[str, ...], env: Mapping[str, str], base: str) -> WirePlan | str:
    """It takes the base URL of a provider from its settings, and settings from this variable before those of files."""
    if len(keys) > 1:
        return f"{' and '.join(keys)} are set: a gateway has one service"
    if env.get(wire.base):
        return f"{wire.base} is set"
    content: Any = PLACE
    for step in reversed(_STEPS[wire.form]):
        content = {step or _provider(keys): content}
    base = base or names.VENDORS[_provider(keys)].base_url
    if wire.form == "pi" and keys == ("ANTHROPIC_API_KEY",):
        base = base.removesuffix("/v1")  # its client adds that
    return WirePlan(base, keys, {wire.base: msgspec.json.encode(content).decode()})


def _codex(card: Card, wire: WireVariables, env: Mapping[str, str]) -> WirePlan | str:
    """Codex takes its provider from its settings; an option on the command line goes before them."""
    path = next(iter(placed(card.settings, env)), "")
    settings = read_settings(path)
    settings = settings if isinstance(settings, dict) else {}
    provider = str(settings.get("model_provider") or "openai")
    tables = settings.get("model_providers")
    table = tables.get(provider) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        return _usual_codex(path, provider, wire, env)
    base, named = str(table.get("base_url") or ""), table.get("env_http_headers")
    keys = [str(table.get("env_key") or ""), *(map(str, named.values()) if isinstance(named, dict) else ())]
    present = tuple(name for name in keys if env.get(name))
    if not base or not present or any(_OWN_KEY.search(name) for name in table):
        return f"its provider {provider} has no base_url and env_key whose variable it gets"
    if not _NAME.fullmatch(provider):
        return f"its provider has the name {provider!r}, which no option can carry"
    if unlisted := _unlisted([path], base):
        return unlisted
    arguments = ("-c", f'model_providers.{provider}.base_url="{PLACE}"')
    headers = tuple(map(str, named)) if isinstance(named, dict) else ()
    return WirePlan(base, present, {}, arguments, _unused(wire, present), headers)


def _unused(wire: WireVariables, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that Codex does not need beside these keys: a base URL may hold a key, too."""
    return tuple(name for name in (*wire.keys, wire.base) if name not in keys)


def _usual_codex(path: str, provider: str, wire: WireVariables, env: Mapping[str, str]) -> WirePlan | str:
    if provider != "openai":
        return f"its provider {provider} is not in its settings"
    if os.path.exists(os.path.join(os.path.dirname(path), "auth.json")):
        return SIGNED_IN
    key = next((name for name in wire.keys if env.get(name)), "")
    if not key:
        return f"none of {', '.join(wire.keys)} is set"
    words = f'name = "OpenAI", base_url = "{PLACE}", env_key = "{key}", wire_api = "responses"'
    arguments = ("-c", 'model_provider="treadle"', "-c", f"model_providers.treadle={{ {words} }}")
    return WirePlan(env.get(wire.base) or wire.usual, (key,), {}, arguments, _unused(wire, (key,)))


def _named(settings: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What an agent's settings say about a base URL or a key: with it the environment does not count."""
    if isinstance(settings, list):
        settings = dict(enumerate(settings))
    if isinstance(settings, dict) and depth < 10:
        for name, value in settings.items():
            text = str(name)
            if isinstance(value, str) and (re.search(r"(?i)base_?url$", text) or _is_key(text)):
                yield text, value
            else:
                yield from _named(value, depth + 1)


def _is_key(name: str) -> bool:
    return bool(_OWN_KEY.search(name)) or name.isupper() and is_secret_name(name)


class Wired:
    """The model wire of a program that is about to start."""

    def __init__(self, argv: Sequence[str], env: dict[str, str], wire: ModelWire, gateway: ModelGateway | None) -> None:
        self.argv = argv
        self.env = env
        self.wire = wire
        self.gateway = gateway

    @property
    def ports(self) -> tuple[PortGrant, ...]:
        return self.gateway.ports if self.gateway is not None else ()

    def close(self) -> None:
        if self.gateway is not None:
            self.gateway.close()


def for_replay(card: Card, env: dict[str, str]) -> dict[str, str]:
    """What an agent needs to start where nothing is paid for: any key will do."""
    if card.wire is None or any(env.get(name) for name in card.wire.keys):
        return env
    base = {} if card.wire.usual or card.wire.form else {card.wire.base: "http://127.0.0.1:9/v1"}
    return {**base, **env, card.wire.keys[0]: "replayed"}


def _commit(cwd: str) -> str:
    from treadle.workspace.user_repository import UserRepository

    user = UserRepository.around(cwd)
    done = user.run("rev-parse", "--verify", "--quiet", "HEAD", check=False) if user is not None else None
    return done.stdout.decode().strip() if done is not None and done.code == 0 else ""


async def wired(
    agent: str,
    plan: WirePlan | ModelWire,
    spec: SessionSpec,
    settings: Settings,
    env: dict[str, str],
    argv: Sequence[str],
    made: Enclosure | None,
) -> Wired:
    """Start the gateway, and lead the program to it. `made`: its sandbox."""
    if isinstance(plan, ModelWire):
        return Wired(argv, env, plan, None)
    from treadle.gateway.governor import AccountGovernor
    from treadle.gateway.recording import CallRecorder, CallReplay, RecordedRun
    from treadle.gateway.server import HOST, SECOND_HOST, ModelGateway, Upstream, placeholder
    from treadle.gateway.spending import Spending

    apart = made is not None and made.asked.network == "off"
    tokens = {name: placeholder(number) for number, name in enumerate(plan.keys)}
    upstream = Upstream(
        base_url=plan.base_url,
        secrets={tokens[name]: env[name].strip() for name in plan.keys},
        headers=plan.headers,
        authorities=env.get("NODE_EXTRA_CA_CERTS", ""),
    )
    governor = AccountGovernor(host_of(plan.base_url) or "", env[plan.keys[0]])
    host = SECOND_HOST if apart and made is not None and leads_outside(made.hosts) else HOST
    recorder = None
    if spec.record:
        base = _commit(spec.cwd)
        run = RecordedRun(
            id=spec.record, agent=agent, cwd=spec.cwd, model=spec.model, mode=spec.mode, at=time.time(), base=base
        )
        recorder = CallRecorder(run, [*upstream.secrets.values()])
    gateway = ModelGateway(
        upstream,
        Spending(spec.limits, _costs(settings), calling=spec.guards.calling),
        governor,
        apart=apart,
        host=host,
        recorder=recorder,
        replay=spec.replay if isinstance(spec.replay, CallReplay) else None,
    )
    await gateway.start()
    led = {name: text.replace(PLACE, gateway.url) for name, text in plan.sets.items()}
    inside = {**{name: text for name, text in env.items() if name not in plan.removes}, **led, **tokens}
    if any(inside.get(name) or inside.get(name.upper()) for name in _PROXIES):
        for name in ("no_proxy", "NO_PROXY"):
            inside[name] = ",".join(filter(None, (inside.get(name), host)))
    words = [*argv, *(word.replace(PLACE, gateway.url) for word in plan.arguments)]
    return Wired(words, inside, OUTSIDE if made is not None else UNCONFINED, gateway)


def _costs(settings: Settings) -> Any:
    """The price of a call, by the settings first."""
    models = names.model_settings(settings.models)

    def costs(usage: Usage) -> float | None:
        if usage.cost_usd is not None:
            return usage.cost_usd
        vendor = "anthropic" if usage.model.startswith("claude") else "openai"
        named = (models.prices.get(name) for name in (f"{vendor}:{usage.model}", usage.model))
        return cost(usage, next(filter(None, named), None) or known.price(vendor, usage.model))

    return costs
