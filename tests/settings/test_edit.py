import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.errors import ConfigError, StorageError
from treadle.io.paths import config_file
from treadle.settings import config
from treadle.settings.edit import add_allow_rules, allow_extension

RULE = "Bash(echo \"a\\b\" > 'c'\n\x7f ü)"


def user_says(text: str) -> Path:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def allowed(tmp_path: Path) -> tuple[str, ...]:
    return config.load(str(tmp_path), {}).settings.permissions.allow


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ('model = "scripted:x"', ()),
        ("[permissions]\n", ()),
        ('[permissions]  # mine\ndeny = ["Bash(rm *)"]\n[limits]\nmax_tokens = 3\n', ()),
        ("[permissions]\nallow = []\n", ()),
        ("[permissions]\nallow = [\n]\n", ()),
        ('[permissions]\nallow = ["Write"]\n', ("Write",)),
        ('[permissions]\ndeny = []\nallow = [  # those\n  "Write",  # and\n  "Edit",\n]\n', ("Write", "Edit")),
        ('system_prompt = """\n[permissions]\nallow = [\n"""\n[permissions]\nallow = ["Write"]\n', ("Write",)),
        ('permissions = { allow = ["Write"] }\n', ("Write",)),
        ('permissions.allow = ["Write"]\nmodel = "scripted:x"\n', ("Write",)),
        ("permissions.deny = []\n", ()),
    ],
)
def test_rules_are_put_where_they_belong_and_nothing_else_changes(
    tmp_path: Path, state_home: Path, text: str, others: tuple[str, ...]
) -> None:
    path = user_says(text)
    before = config.load(str(tmp_path), {}).settings
    add_allow_rules(["Bash(make)", RULE])
    after = config.load(str(tmp_path), {}).settings
    assert after.permissions.allow == ("Bash(make)", RULE, *others)
    assert after.permissions.deny == before.permissions.deny
    assert after.limits == before.limits and after.model == before.model
    assert [line for line in text.splitlines() if "#" in line and "[" not in line] == [
        line for line in path.read_text().splitlines() if "#" in line and "[" not in line
    ]


@pytest.mark.parametrize(
    "text",
    ["permissions = 3\n", "[permissions]\nallow = 3\n", "[", "\xff"],
)
def test_what_cannot_be_added_to_stays_as_it_is(state_home: Path, text: str) -> None:
    path = user_says("")
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=str(path)):
        add_allow_rules(["Bash(make)"])
    assert path.read_bytes() == text.encode("latin-1")


def test_a_table_that_is_none_is_left_to_the_person(state_home: Path) -> None:
    path = user_says("extensions = 3\n")
    with pytest.raises(ConfigError, match=f"extensions in {path} is not a table .fix it by hand"):
        allow_extension("other", "1.0")
    assert path.read_text() == "extensions = 3\n"


def test_a_link_to_the_file_stays_a_link(tmp_path: Path, state_home: Path) -> None:
    path = user_says("")
    kept = tmp_path / "dotfiles.toml"
    path.rename(kept)
    kept.chmod(0o640)
    path.symlink_to(kept)
    add_allow_rules(["Write"])
    assert path.is_symlink() and allowed(tmp_path) == ("Write",) and kept.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_old_file(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = user_says("# mine\n")
    code = (
        "import resource, signal; from treadle.settings.edit import add_allow_rules\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))\n"
        "add_allow_rules(['Write'])"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert StorageError.__name__ in failed.stderr and path.read_text() == "# mine\n"
    assert [name for name in os.listdir(path.parent) if name.endswith(".tmp")] == []


def test_many_at_once_lose_no_rule(tmp_path: Path, state_home: Path) -> None:
    code = "import sys; from treadle.settings.edit import add_allow_rules; add_allow_rules([f'Bash({sys.argv[1]})'])"
    running = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    assert sorted(allowed(tmp_path)) == [f"Bash({number})" for number in range(6)]
