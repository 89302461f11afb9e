"""`treadle exec`: what Codex's SDK and scripts start as `codex exec`, for any agent."""

import os
import sys
import tomllib
from typing import Any

import click

from treadle.cli.oneshot import oneshot
from treadle.errors import ConfigError

MODES = {"read-only": "suggest", "workspace-write": "full-auto", "danger-full-access": "yolo"}
EFFORT = "model_reasoning_effort"
DECIDED = ("approval_policy", "web_search")
"""Keys of --config whose meaning is decided here by other things: no one can be asked, and rules permit tools."""


@click.command("exec", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1)
@click.option("--json", "--experimental-json", "as_json", is_flag=True, help="One JSON event per line.")
@click.option("--model", "-m", metavar="NAME", help="The model, as in treadle -p.")
@click.option("--agent", metavar="NAME", help="Which agent runs it.")
@click.option("--sandbox", "-s", type=click.Choice(list(MODES)), help="What commands may change.")
@click.option("--full-auto", is_flag=True, help="The same as --sandbox workspace-write.")
@click.option("--dangerously-bypass-approvals-and-sandbox", "--yolo", "bypass", is_flag=True, help="No limits at all.")
@click.option("--cd", "-C", "directory", metavar="DIR", help="Work there.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="Work there too.")
@click.option("--output-schema", metavar="FILE", help="The answer must fit this JSON Schema.")
@click.option("--output-last-message", "-o", metavar="FILE", help="Write the answer there, too.")
@click.option("--ephemeral", is_flag=True, help="Keep nothing on disk.")
@click.option("--config", "-c", multiple=True, metavar="KEY=VALUE", help=f"{EFFORT} is used; others are named.")
@click.option("--skip-git-repo-check", is_flag=True, hidden=True)
@click.option("--thread-source", hidden=True)
@click.option("--last", is_flag=True, help="With resume: go on with the last session here.")
def exec_(words: tuple[str, ...], directory: str | None, **given: Any) -> None:
    """Run one prompt as `codex exec` does, for its SDK and scripts, with any agent.

    WORDS are [resume ID] [PROMPT]. Without PROMPT, or with -, it is read from stdin. Codex's SDK works with any agent
    that way: new Codex({ codexPathOverride: "treadle" }). The lines of --json: treadle docs one-shot.
    """
    arguments = oneshot_arguments(words, **given)
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise ConfigError(f"--cd {directory}: {error.strerror}") from error
    oneshot.main(arguments, prog_name="treadle exec")


def oneshot_arguments(
    words: tuple[str, ...],
    *,
    as_json: bool = False,
    model: str | None = None,
    agent: str | None = None,
    sandbox: str | None = None,
    full_auto: bool = False,
    bypass: bool = False,
    add_dir: tuple[str, ...] = (),
    output_schema: str | None = None,
    output_last_message: str | None = None,
    ephemeral: bool = False,
    config: tuple[str, ...] = (),
    last: bool = False,
    **_: Any,
) -> list[str]:
    """The same run as arguments of `treadle -p`."""
    mode = "yolo" if bypass else MODES[sandbox or ("workspace-write" if full_auto else "read-only")]
    found = ["-p", "--permission-mode", mode]
    found += ["--output-format", "codex-json"] if as_json else []
    found += ["--no-session-persistence"] if ephemeral else []
    files = (("--json-schema", output_schema), ("--last-message", output_last_message))
    for option, value in (("--model", model), ("--agent", agent), *files):
        found += [option, value] if value is not None else []
    for directory in add_dir:
        found += ["--add-dir", directory]
    found += _configured(config)
    if words[:1] == ("resume",):
        words = words[1:]
        found += ["--continue"] if last else ["--resume", *_first(words)]
        words = words if last else words[1:]
    if len(words) > 1:
        raise ConfigError(f"there is more than one prompt: {' and '.join(map(repr, words))}", hint="quote it")
    return [*found, "--", *words] if words and words != ("-",) else found


def _first(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise ConfigError("resume needs the id of a session", hint="or --last")
    return words[:1]


def _configured(config: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for entry in config:
        key, _, text = entry.partition("=")
        if key.strip() == EFFORT:
            try:
                value = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                value = text
            found += ["--effort", str(value)]
        elif key.strip() not in DECIDED:
            print(f"treadle: --config {key} is not used here", file=sys.stderr)
    return found
