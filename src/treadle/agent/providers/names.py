"""From a model's name to its provider. `docs/reference/models.md` describes this file in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.agent.messages import Provider
from treadle.agent.providers import known
from treadle.agent.providers.http import Clock, Endpoint, RetryPolicy, loopback
from treadle.agent.providers.known import Price
from treadle.errors import ConfigError, NoModel
from treadle.session import Effort, Reasoning

if TYPE_CHECKING:  # the HTTP client is slow to import, and a scripted model does not need it
    from treadle.agent.providers.http import Format


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str = ""
    key: str = ""
    """The vendor's usual variable for the key; empty where none is needed."""
    base: str = ""
    """The vendor's usual variable for another base URL."""
    idle: float = 120.0
    """Seconds of silence after which a stream counts as broken. Some services are silent while the model thinks, and
    a model on a small machine can read a long prompt for many minutes before its first word.
    """
    reports_cost: bool = False
    default: str = ""
    """The model that the vendor's name alone stands for; empty where only the server knows what it has."""


LOCAL_IDLE = 1800.0
VENDORS = {
    "openrouter": Vendor(
        base_url="https://openrouter.ai/api/v1",
        key="OPENROUTER_API_KEY",
        base="OPENROUTER_BASE_URL",
        reports_cost=True,
        default="openrouter/auto",
    ),
    "anthropic": Vendor(
        base_url="https://api.anthropic.com/v1",
        key="ANTHROPIC_API_KEY",
        base="ANTHROPIC_BASE_URL",
        default="claude-sonnet-5-5",
    ),
    "openai": Vendor(
        base_url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        base="OPENAI_BASE_URL",
        idle=600.0,
        default="gpt-6-sol",
    ),
    "ollama": Vendor(base_url="http://127.0.0.1:11434/v1", base="OLLAMA_HOST", idle=LOCAL_IDLE),
    "chat": Vendor(idle=300.0),
}
PREFIXES = (*VENDORS, "scripted")
WIDE = "context-1m-2025-08-07"
"""What Anthropic's service is told where the long window of a model is wanted, `MODEL[1m]`."""
_AS_USUAL = ("default", "inherit")
"""Names for whichever model TREADLE_MODEL or the settings have."""
FAMILIES = {"claude-": "anthropic", r"gpt-|chatgpt-|codex-|o\d(-|$)": "openai"}

HOW = (
    "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, start Ollama, or set TREADLE_BASE_URL for a server"
    " of your own; then choose with `treadle models use`"
)


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person can set about models in a config file. The environment overrides it."""

    base_url: str = ""
    api_key: str = ""
    headers: dict[str, str] = {}
    idle_timeout: float | None = None
    """None: depends on the kind of service."""
    aliases: dict[str, str] = {}
    """Short names for models, such as `sonnet`."""
    thinking: dict[str, Effort | int] = {}
    """How much a model thinks, by its full name or the model's name alone: an effort, or a number of tokens."""
    retry: RetryPolicy = RetryPolicy()
    prices: dict[str, Price] = {}
    windows: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"ModelSettings(base_url={self.base_url!r}, api_key={'set' if self.api_key else 'not set'})"


def model_settings(table: Mapping[str, Any]) -> ModelSettings:
    """The `[models]` table of a config file."""
    try:
        return msgspec.convert(table, ModelSettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[models] in the settings: {error}", hint="see `treadle docs models`") from None


def resolve(
    name: str | None, env: Mapping[str, str], settings: ModelSettings | None = None, *, clock: Clock | None = None
) -> Provider:
    """The provider for a model. Raises ConfigError that says what to set; makes no connection."""
    settings = settings or ModelSettings()
    name = (name or env.get("TREADLE_MODEL") or "").strip()
    if not name:
        raise NoModel("No model is configured", hint=_which(env))
    vendor, model = choose(real_name(name, env, settings), env, settings)
    wide = vendor == "anthropic" and (name.endswith("[1m]") or model.endswith("[1m]"))
    model = model.removesuffix("[1m]") if vendor == "anthropic" else model
    wide = wide and (known.window(model) or 0) < 1_000_000  # newer models have that window anyway
    if vendor == "scripted":
        from treadle.agent.providers.script import ScriptedProvider, load

        return ScriptedProvider(load(model), retry=_patience(env, settings.retry), clock=clock)
    from treadle.agent.providers.http import HttpProvider

    prices = [settings.prices.get(f"{vendor}:{model}"), settings.prices.get(model), known.price(vendor, model)]
    usual = settings.thinking.get(f"{vendor}:{model}", settings.thinking.get(model))
    if usual is None and vendor == "anthropic" and env.get("MAX_THINKING_TOKENS", "").isdecimal():
        usual = int(env["MAX_THINKING_TOKENS"])
    thinking = Reasoning(tokens=usual) if isinstance(usual, int) else Reasoning(effort=usual)
    service = endpoint(vendor, env, settings)
    if wide:
        service = msgspec.structs.replace(service, headers={**service.headers, "anthropic-beta": WIDE})
    windows = (settings.windows.get(f"{vendor}:{model}"), settings.windows.get(model), 1_000_000 if wide else None)
    return HttpProvider(
        msgspec.structs.replace(service, thinking=thinking),
        model,
        _format(vendor),
        context_window=next(filter(None, windows), None) or known.window(model),
        price=next((price for price in prices if price is not None), None),
        clock=clock,
    )


def real_name(name: str, env: Mapping[str, str], settings: ModelSettings) -> str:
    """What a short name stands for. A name of a family of models is resolved or refused, never another family."""
    if name in settings.aliases:
        return settings.aliases[name]
    usual, family = env.get("TREADLE_MODEL", ""), name.removesuffix("[1m]")
    if family in _AS_USUAL:
        if not usual or usual.removesuffix("[1m]") in _AS_USUAL:
            raise ConfigError(f"no model is set for {name!r}", hint="set TREADLE_MODEL")
        return real_name(usual, {**env, "TREADLE_MODEL": ""}, settings)
    usual = settings.aliases.get(usual, usual)
    if usual.removesuffix("[1m]") in (*_AS_USUAL, *known.FAMILIES):  # itself only a short name
        usual = ""
    if family == "opusplan":
        raise ConfigError("opusplan changes the model with the mode, which is not supported", hint="opus or sonnet")
    if family not in known.FAMILIES:
        return name
    if found := env.get(f"ANTHROPIC_DEFAULT_{family.upper()}_MODEL"):
        return found
    if family in usual.rpartition("/")[2]:
        return usual
    if _configured("anthropic", env) and not (env.get("TREADLE_BASE_URL") or settings.base_url):
        return f"anthropic:{known.FAMILIES[family]}"
    raise ConfigError(
        f"{name!r} is a Claude model, and no service for it is set up{f'; {usual} is another' if usual else ''}",
        hint=f'set ANTHROPIC_API_KEY, or write [models.aliases] {name} = "WHO:MODEL"',
    )


def choose(name: str, env: Mapping[str, str], settings: ModelSettings) -> tuple[str, str]:
    """The service of a model, and the model's name there."""
    prefix, colon, rest = name.partition(":")
    if colon and prefix in PREFIXES:
        if not rest:
            raise ConfigError(f"the model name {name!r} is only a prefix")
        return prefix, rest
    if name in VENDORS:
        return name, default_model(name)
    if env.get("TREADLE_BASE_URL") or settings.base_url:
        return "chat", name
    vendor, slash, model = name.partition("/")
    if slash:
        direct = vendor in ("anthropic", "openai") and _configured(vendor, env)
        return (vendor, model) if direct else ("openrouter", name)
    if not colon:
        for family, owner in FAMILIES.items():
            if re.match(family, name):
                return owner, name
    raise ConfigError(
        f"no known service has the model {name!r}",
        hint=f"write WHO:{name}, where WHO is one of {', '.join(PREFIXES)}",
    )


def is_model(name: str, settings: ModelSettings) -> bool:
    """Whether a name without a service's prefix is that of a model: a short name, an alias, or of a known form."""
    short = name.removesuffix("[1m]") in known.FAMILIES or name in settings.aliases
    return short or "/" in name or any(re.match(family, name) for family in FAMILIES)


def default_model(vendor: str) -> str:
    """The model that a vendor's name alone stands for."""
    if not VENDORS[vendor].default:
        hint = f"`treadle models {vendor}` lists what it has; then write {vendor}:MODEL"
        raise ConfigError(f"{vendor} has no default model: its models depend on its server", hint=hint)
    return VENDORS[vendor].default


def endpoint(vendor: str, env: Mapping[str, str], settings: ModelSettings) -> Endpoint:
    facts = VENDORS[vendor]
    base = env.get("TREADLE_BASE_URL") or settings.base_url or env.get(facts.base, "")
    key = env.get("TREADLE_API_KEY") or env.get(facts.key, "") or settings.api_key
    if vendor == "chat" and not base:
        raise ConfigError("chat: models need the address of their server", hint="set TREADLE_BASE_URL")
    headers = ({"x-title": "Treadle"} if vendor == "openrouter" else {}) | settings.headers
    if vendor == "anthropic":
        headers |= _claude_headers(env)
    if facts.key and not key and not base and "authorization" not in headers:
        hint = f"set {facts.key}, or TREADLE_BASE_URL for a server of your own"
        raise ConfigError(f"there is no key for {vendor}", hint=hint)
    return Endpoint(
        name=vendor,
        base_url=_base(vendor, base) if base else facts.base_url,
        key=key.strip(),
        key_variable="TREADLE_API_KEY" if env.get("TREADLE_API_KEY") else facts.key or "TREADLE_API_KEY",
        headers=headers,
        idle_timeout=_idle(vendor, base, settings),
        reports_cost=facts.reports_cost,
        retry=_patience(env, settings.retry),
    )


def _claude_headers(env: Mapping[str, str]) -> dict[str, str]:
    """Those that Claude Code's variables ask for; ANTHROPIC_CUSTOM_HEADERS has a `Name: value` in each line."""
    token, lines = env.get("ANTHROPIC_AUTH_TOKEN", "").strip(), env.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines()
    given = [line.partition(":") for line in lines if line.partition(":")[0].strip()]
    more = {name.strip().lower(): value.strip() for name, _, value in given}
    return {**({"authorization": f"Bearer {token}"} if token else {}), **more}


def _idle(vendor: str, base: str, settings: ModelSettings) -> float:
    if settings.idle_timeout is not None:
        return settings.idle_timeout
    return LOCAL_IDLE if base and loopback(base) else VENDORS[vendor].idle


def _patience(env: Mapping[str, str], retry: RetryPolicy) -> RetryPolicy:
    text = env.get("TREADLE_RETRY_SECONDS")
    if not text:
        return retry
    try:
        seconds = float(text)
    except ValueError:
        raise ConfigError(f"TREADLE_RETRY_SECONDS is {text!r}, which is not a number") from None
    return msgspec.structs.replace(retry, patience=seconds, reset_patience=max(seconds, 0.0))


def key_source(vendor: str, env: Mapping[str, str], settings: ModelSettings) -> str:
    """The variable that the key comes from, or `settings`; empty when there is no key."""
    if vendor not in VENDORS:
        return ""
    names = ["TREADLE_API_KEY", VENDORS[vendor].key, *(["ANTHROPIC_AUTH_TOKEN"] if vendor == "anthropic" else [])]
    variables = [name for name in names if name and env.get(name)]
    return variables[0] if variables else "settings" if settings.api_key else ""


def _configured(vendor: str, env: Mapping[str, str]) -> bool:
    token = env.get("ANTHROPIC_AUTH_TOKEN") if vendor == "anthropic" else ""
    return bool(token or env.get(VENDORS[vendor].key) or env.get(VENDORS[vendor].base))


def _which(env: Mapping[str, str]) -> str:
    for vendor, facts in VENDORS.items():
        if facts.key and env.get(facts.key):
            return (
                f"{facts.key} is set: `treadle models use {vendor}` uses {vendor}:{facts.default} from now on,"
                f" --model {vendor} or TREADLE_MODEL={vendor} for once; `treadle models` lists the others"
            )
    return HOW


def _base(vendor: str, base: str) -> str:
    base = base.strip().rstrip("/")
    if vendor == "ollama" and "://" not in base:  # OLLAMA_HOST may be host, host:port or :port, and 0.0.0.0
        host, _, port = base.partition(":")
        base = f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port or 11434}"
    if vendor in ("anthropic", "ollama") and not base.endswith("/v1"):
        base += "/v1"  # these variables leave it out by convention
    if "://" not in base:
        raise ConfigError(f"the base URL {base!r} has no scheme", hint="write it as https://HOST/v1")
    return base


def _format(vendor: str) -> Format:
    if vendor == "anthropic":
        from treadle.agent.providers.anthropic import AnthropicFormat

        return AnthropicFormat()
    if vendor == "openai":
        from treadle.agent.providers.responses import ResponsesFormat

        return ResponsesFormat()
    from treadle.agent.providers.chat import ChatFormat

    return ChatFormat(openrouter=vendor == "openrouter")
