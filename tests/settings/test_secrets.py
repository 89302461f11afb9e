"""The keys in a person's settings are known, so that they can be removed."""

from pathlib import Path

import pytest

from treadle.io.paths import config_file
from treadle.settings import config

TEXT = """
[models]
api_key = "key-of-the-model"
base_url = "https://model.example"
headers = { Authorization = "Bearer key-of-the-header", Accept = "application/json" }

[mcp_servers.notes]
command = "notes"
env = { NOTES_TOKEN = "key-of-the-server", NOTES_DIR = "/notes", EMPTY_TOKEN = " " }
headers = { X-Auth = "key-of-its-header", Accept = "text/plain" }

[agents.codex]
set = { OPENAI_API_KEY = "key-of-the-agent", RUST_LOG = "warnings" }
"""


@pytest.fixture
def settings_file() -> Path:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_every_value_that_its_name_calls_a_secret_is_known_and_no_other(settings_file: Path) -> None:
    settings_file.write_text(TEXT)
    assert sorted(config.known()) == [
        "key-of-its-header",
        "key-of-the-agent",
        "key-of-the-header",
        "key-of-the-model",
        "key-of-the-server",
    ]


def test_without_settings_or_with_damaged_ones_none_are_known(settings_file: Path) -> None:
    assert config.known() == ()
    settings_file.write_text("[models\n")
    assert config.known() == ()
