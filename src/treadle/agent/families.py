"""What suits a family of models, by a table: names are all there is to go by."""

import re
from typing import Literal, TypeAlias, cast

from treadle.agent.configuration import Configuration
from treadle.agent.providers.base import Provider
from treadle.agent.small.profile import small_tools
from treadle.agent.tools.arguments import plain_name
from treadle.errors import ConfigError
from treadle.session import Rules

EditFormat: TypeAlias = Literal["replace", "patch", "small"]
"""How files are edited: a text by another (`edit_file`), a patch over files (`apply_patch`), or as the profile for
small models has it, which prefers whole files and repairs what almost fits."""

EDITS: tuple[tuple[str, EditFormat], ...] = (
    (r"\b(gpt-3|gpt-4(?!\.1))", "replace"),
    (r"\b(gpt-(oss|4\.1|[5-9])|o[34]\b|codex)", "patch"),
)
"""The first row whose pattern is in the name counts; all others replace text, as Claude models are trained to."""
REPLACING, PATCHING = ("edit_file", "multi_edit"), "apply_patch"
WORDS = {"patch": "Change files with apply_patch, also to make or remove them."}
"""What the system prompt says in place of its words about edit_file."""


def about_replacing(rules: Rules) -> bool:
    """Whether a rule names one of the tools that a patch would stand for, and so would not be obeyed."""
    named = {plain_name(rule.partition("(")[0].strip()) for rule in (*rules.deny, *rules.ask)}
    return bool(named & {"editfile", "multiedit", "writefile"})


def edit_format(provider: Provider, setting: str | None) -> EditFormat:
    """As it was asked for (`replace`, `patch`), else as suits the model."""
    if setting not in (None, "", "auto", "replace", "patch"):
        raise ConfigError(f"edits is {setting!r}", hint="write auto, replace or patch")
    if setting in ("replace", "patch"):
        return cast(EditFormat, setting)
    if small_tools(provider) is not None:
        return "small"
    name = provider.model.lower().replace("_", "-")
    return next((wanted for pattern, wanted in EDITS if re.search(pattern, name)), "replace")


def suited(configuration: Configuration, provider: Provider, judged: bool) -> EditFormat:
    """How a session edits. Hooks (`judged`), rules about a tool and hosts that know Claude's tools know no patches: for
    them text is replaced, unless patches were asked for by name."""
    wanted = configuration.spec.extra.get("edits", configuration.settings.edits)
    known = judged or configuration.entrypoint or about_replacing(configuration.rules)
    return edit_format(provider, "replace" if known and wanted != "patch" else wanted)
