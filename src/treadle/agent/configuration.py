"""What a session of the native agent is opened with: its spec combined with the settings files."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from treadle.agent.messages import Provider
from treadle.agent.providers.names import ModelSettings, key_source, model_settings, resolve
from treadle.errors import ConfigError
from treadle.policy.environment import given, inherited, reduced
from treadle.redact import is_secret_name
from treadle.sandboxed.confining import settled
from treadle.session import Confinement, Limits, Rules, SessionSpec
from treadle.settings import config
from treadle.settings.claude import (
    ClaudeSettings,
    ClaudeVariables,
    CommandHook,
    entrypoint_of,
    own_variables,
    plugin_settings,
)
from treadle.settings.config import McpServer, Settings, Timeouts

KEY_COMMAND_SECONDS = 30.0
WITHOUT = "leave its file out: --setting-sources project leaves out those of your home directory, user the project's"


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    spec: SessionSpec
    settings: Settings
    models: ModelSettings
    env: dict[str, str]
    """Our environment with what the spec adds: providers read their keys here."""
    theirs: ClaudeVariables = ClaudeVariables()
    """What Claude Code's variables say."""
    notes: tuple[str, ...] = ()
    """What a person should know about the settings that were read."""
    model_from: str = ""
    """Where the model of the settings comes from."""

    @classmethod
    async def load(cls, spec: SessionSpec, environ: Mapping[str, str]) -> Configuration:
        instructions = spec.instructions
        own = own_variables({**environ, **spec.env}) if instructions.uses("user") else {}
        env = {**own, **environ, **spec.env}
        theirs = ClaudeVariables.read(env)
        loaded = config.load(spec.cwd, env, trusted=True if spec.trusted else None, sources=instructions.sources)
        plugins = {f"the plugin {directory}": plugin_settings(directory) for directory in instructions.plugins}
        of_plugins = (text for name, plugin in plugins.items() for text in plugin.reading.refusals(name))
        for refusal in (*loaded.forbids, *of_plugins):
            raise ConfigError(refusal, hint=WITHOUT)
        settings = _with_hooks(loaded.settings, spec, plugins.values())
        if spec.mode == "yolo":
            settings.check_bypass()
        return cls(
            spec=spec,
            settings=settings,
            models=await _models(settings, env),
            env=env,
            theirs=theirs,
            notes=(
                *loaded.warnings,
                *filter(None, [theirs.reading.notice]),
                *(f"{name}: {plugin.reading.notice}" for name, plugin in plugins.items() if plugin.reading.notice),
                *(() if spec.model else loaded.unreachable),
                *map(cls.ignored, loaded.ignored),
            ),
            model_from=loaded.origins.get("model", ""),
        )

    @staticmethod
    def ignored(what: str) -> str:
        return f"ignored, because this project is not trusted (`treadle trust`): {what}"

    def provider(self, model: str | None) -> Provider:
        env = self.env
        if "give_up_after" in self.spec.extra:  # what was typed counts, not the environment
            env = {name: value for name, value in env.items() if name != "TREADLE_RETRY_SECONDS"}
        if model is not None and self.settings.model:  # a short name without a mapping stands for this
            env = {**env, "TREADLE_MODEL": env.get("TREADLE_MODEL") or self.settings.model}
        try:
            return resolve(model, env, self._models())
        except ConfigError as error:
            if model is None or model != self.settings.model or model == self.spec.model:
                raise
            raise type(error)(f"{error.message} (the model is set in {self.model_from})", hint=error.hint) from None

    def _models(self) -> ModelSettings:
        """With how often and how long a failing service is asked again, where that was said for this session."""
        given = self.spec.extra
        retry = self.models.retry
        if not retry.tries and self.theirs.tries is not None:
            retry = msgspec.structs.replace(retry, tries=self.theirs.tries)
        if (tries := given.get("retries")) is not None:
            retry = msgspec.structs.replace(retry, tries=tries + 1)
        if (seconds := given.get("give_up_after")) is not None:
            retry = msgspec.structs.replace(retry, patience=seconds, reset_patience=seconds)
        return msgspec.structs.replace(self.models, retry=retry)

    @property
    def persona(self) -> str | None:
        """The system prompt that was given; None: our usual one."""
        return self.spec.instructions.system or self.settings.system_prompt

    @property
    def command_seconds(self) -> float:
        """How long a command may take that does not say."""
        wanted = self.settings.timeouts.tool
        return wanted if wanted != Timeouts().tool else self.theirs.bash_seconds or wanted

    @property
    def weak_model(self) -> str | None:
        return self.settings.weak_model or self.theirs.weak_model

    def window(self, provider: Provider) -> int | None:
        """How many tokens a conversation may have: what the model takes, or less if that was asked for."""
        known = [size for size in (provider.context_window, self.spec.extra.get("context_tokens")) if size is not None]
        return min(known, default=None)

    def key_source(self, provider: Provider) -> str:
        return key_source(provider.name, self.env, self.models)

    @property
    def rules(self) -> Rules:
        files, asked = self.settings.permissions, self.spec.rules
        return Rules(allow=files.allow + asked.allow, ask=files.ask + asked.ask, deny=files.deny + asked.deny)

    @property
    def limits(self) -> Limits:
        """Each limit as the spec has it, else as the files have it."""
        chosen = {
            field.name: _first(
                getattr(self.spec.limits, field.name), getattr(self.settings.limits, field.name), field.default
            )
            for field in msgspec.structs.fields(Limits)
        }
        return Limits(**chosen)

    @property
    def grace(self) -> float:
        """Seconds that an interrupted command has to end by itself, before it is killed."""
        return min(self.settings.timeouts.interrupt, float(self.spec.extra.get("grace", math.inf)))

    @property
    def add_dirs(self) -> tuple[str, ...]:
        return self.settings.add_dirs + self.spec.add_dirs

    @property
    def confinement(self) -> Confinement:
        passed = self.lasting(self.child_env, True)
        return msgspec.structs.replace(settled(self.spec.confinement, self.settings), variables=tuple(passed))

    def lasting(self, variables: dict[str, str], confined: bool) -> dict[str, str]:
        """Those that pass into a sandbox, else those that do not look like a secret."""
        if not confined:
            return inherited(variables, self.settings.env)[0]
        return reduced(variables, (*self.settings.env, *given(self.spec.env), *self.settings.variables))

    @property
    def entrypoint(self) -> str:
        """Which SDK of Claude Code drives us, such as `sdk-py`; empty when none does."""
        return entrypoint_of(self.env)

    @property
    def child_env(self) -> dict[str, str]:
        """What tools, hooks and servers see: the caller's environment or an allow-list of it, and what was added."""
        added, names = given(self.spec.env), self.settings.env
        if not self.spec.inherit_env:
            added = {name: value for name, value in added.items() if not is_secret_name(name)}
        found = inherited(self.env, names)[0] if self.spec.inherit_env else reduced(self.env, (*names, *added))
        return {**found, **given(self.settings.variables), **added}

    @property
    def withheld(self) -> list[str]:
        """Variables of the caller that tools do not see, because they look like secrets."""
        if not self.spec.inherit_env:
            return []
        return [name for name in inherited(self.env, self.settings.env)[1] if name not in self.child_env]


def _with_hooks(settings: Settings, spec: SessionSpec, plugins: Iterable[ClaudeSettings]) -> Settings:
    """With the hooks of plugins and of --settings, which are run as those of settings files are, and its bans."""
    given = msgspec.convert(spec.extra.get("hooks", ()), tuple[CommandHook, ...])
    events = (*settings.hooks.events, *(hook for plugin in plugins for hook in plugin.hooks), *given)
    hooks = msgspec.structs.replace(settings.hooks, events=events)
    bypass = settings.bypass and spec.extra.get("bypass", True)
    banned = {name: McpServer(disabled=True) for name in spec.extra.get("disabled_servers", ())}
    return msgspec.structs.replace(settings, hooks=hooks, bypass=bypass, mcp_servers={**settings.mcp_servers, **banned})


def _first(asked: Any, file: Any, default: Any) -> Any:
    return asked if asked != default else file


async def _models(settings: Settings, env: Mapping[str, str]) -> ModelSettings:
    models = model_settings(settings.models)
    if settings.key_command and not models.api_key and not env.get("TREADLE_API_KEY"):
        models = msgspec.structs.replace(models, api_key=await _run_key_command(settings.key_command))
    return models


async def _run_key_command(command: str) -> str:
    from treadle.io.process.child import start

    child = await start(["/bin/sh", "-c", command], cwd="/")  # not where an agent may have put a program of that name
    output = b""
    try:
        async with child, asyncio.timeout(KEY_COMMAND_SECONDS):
            while chunk := await child.stdio.read():
                output = (output + chunk)[:4096]
            code = await child.wait()
            words = await child.last_words()
    except TimeoutError:
        raise ConfigError(f"key_command took more than {KEY_COMMAND_SECONDS:g} s", hint="run it by hand") from None
    key = output.decode(errors="replace").strip()
    if code != 0 or not key:
        raise ConfigError(f"key_command printed no key (exit code {code}): {words.strip()}", hint="run it by hand")
    return key
