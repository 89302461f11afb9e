"""`treadle models use`: a choice is kept, listed, and overridden."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.choosing.chosen import once
from tests.installed import treadle
from treadle.cli.models import models
from treadle.io.paths import config_file
from treadle.settings import config


@pytest.mark.slow
async def test_what_was_chosen_is_remembered_and_a_flag_or_variable_overrides_it(
    bare: dict[str, str], script: Path, agent: str
) -> None:
    done = treadle("models", "use", f"scripted:{script}", env=bare)
    assert done.returncode == 0 and config_file() in done.stdout
    done = once(bare)
    assert (done.returncode, done.stdout, done.stderr) == (0, "I heard.\n", "")
    assert treadle("models", "use", agent, env=bare).returncode == 0
    found = config.load(".").settings
    assert found.agent == agent and found.model == f"scripted:{script}" and agent in found.agents
    done = once(bare, "--output-format", "json", "--verbose")
    assert done.returncode == 0, done.stderr
    assert once({**bare, "TREADLE_AGENT": "nonsense"}).stderr.startswith("treadle: there is no agent 'nonsense'")
    assert once(bare, "--model", f"scripted:{script}").stdout == "I heard.\n"
    overridden = once({**bare, "TREADLE_MODEL": "scripted:/nothing"})
    assert overridden.returncode != 0 and "/nothing" in overridden.stderr
    both = once({**bare, "TREADLE_MODEL": "scripted:/nothing", "TREADLE_AGENT": agent})
    assert both.stdout == "I heard.\n"
    assert treadle("models", "use", "local", env=bare).returncode == 1  # it is not on this machine


def test_what_could_be_chosen_is_listed_for_scripts(bare: dict[str, str]) -> None:
    done = treadle("models", "use", "--json", env={**bare, "ANTHROPIC_API_KEY": "a"})
    [choice] = json.loads(done.stdout)
    assert choice["name"].startswith("anthropic:") and "ANTHROPIC_API_KEY" in choice["because"]
    done = treadle("models", "use", env=bare)
    assert (done.returncode, done.stdout) == (2, "") and "export ANTHROPIC_API_KEY=" in done.stderr


def test_a_short_name_of_a_model_can_be_kept_and_what_is_neither_says_so(bare: dict[str, str], agent: str) -> None:
    keyed = {**bare, "ANTHROPIC_API_KEY": "a"}
    for name in ("sonnet", "claude-opus-5"):
        assert treadle("models", "use", name, env=keyed).returncode == 0
        assert config.load(".").settings.model == name
    assert "'sonnet' is a Claude model" in treadle("models", "use", "sonnet", env=bare).stderr
    said = treadle("models", "use", "nonsense", env=keyed).stderr
    assert "there is no agent and no known model 'nonsense'" in said and "helper" in said and "anthropic" in said
    assert config.load(".").settings.model == "claude-opus-5"
    assert "needs a model" in treadle("models", "use", "native", env=keyed).stderr
    assert (
        "TREADLE_MODEL=anthropic" not in (said := treadle("models", env=bare).stderr) and "treadle models use" in said
    )


def use(*words: str) -> Result:
    return CliRunner().invoke(models, ["use", *words])


def test_a_name_is_kept_as_a_model_or_as_an_agent_and_programs_are_told(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    done = use("anthropic:x", "--json")
    assert json.loads(done.output) == [{"name": "anthropic:x", "because": "named", "chosen": True}]
    found = config.load(".").settings
    assert (found.agent, found.model) == (None, "anthropic:x")
    done = use("claude")
    assert done.output == f"claude is used from now on (saved in {config_file()}).\n" and done.exit_code == 0
    assert config.load(".").settings.agent == "claude" and use("acp:cat").exit_code == 0
    assert config.load(".").settings.agent == "acp:cat" and use("anthropic").exit_code == 0
    assert config.load(".").settings.agent is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("native", "our own agent needs a model"),
        ("nonsense", "there is no agent and no known model 'nonsense'"),
        ("acp:", "names no command"),
        ("openai:x", "OPENAI_API_KEY"),
        ("odd:x", "odd"),
    ],
)
def test_what_cannot_be_used_is_not_kept(nothing: Path, name: str, said: str) -> None:
    done = use(name)
    assert done.exit_code == 1 and said in str(done.exception) and not Path(config_file()).exists()


def test_what_is_found_is_listed_one_in_a_line_and_nothing_ends_with_2(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = use()
    assert (none.exit_code, none.stdout) == (2, "") and "Nothing is set up on this machine yet." in none.stderr
    as_json = use("--json")
    assert (as_json.exit_code, as_json.stdout, as_json.stderr) == (2, "[]\n", "")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    one = use()
    assert (one.exit_code, one.stdout, one.stderr) == (0, "openai:gpt-6-sol\tOPENAI_API_KEY is set\n", "")
    told = json.loads(use("--json").stdout)
    assert told == [{"name": "openai:gpt-6-sol", "because": "OPENAI_API_KEY is set", "chosen": False}]
    assert config.load(".").settings.model is None
