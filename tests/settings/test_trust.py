import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from treadle.errors import ConfigError, StorageError
from treadle.io.paths import state_dir
from treadle.settings import trust


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / ".treadle" / "hooks").mkdir(parents=True)
    (repo / ".treadle" / "config.toml").write_text("")
    (repo / ".treadle" / "hooks" / "check.sh").write_text("exit 0")
    (repo / ".mcp.json").write_text("{}")
    return repo


def test_nothing_is_trusted_until_somebody_says_so(repo: Path) -> None:
    assert not trust.is_trusted(str(repo))
    [entry] = trust.trust(str(repo))
    assert entry.files == (".mcp.json", ".treadle/config.toml", ".treadle/hooks/check.sh")
    assert trust.is_trusted(str(repo))
    assert trust.is_trusted(str(repo / "." / ".." / "repo"))
    assert not trust.is_trusted(str(repo.parent))
    assert trust.remove(str(repo)) and not trust.is_trusted(str(repo)) and not trust.remove(str(repo))


@pytest.mark.parametrize(
    "change",
    [
        *(".treadle/config.toml", ".treadle/hooks/check.sh", ".mcp.json", ".treadle/new", "gone", "backplane.toml"),
        *(".claude/settings.json", ".claude/settings.local.json"),
    ],
)
def test_any_change_to_a_file_that_matters_ends_it(repo: Path, change: str) -> None:
    [entry] = trust.trust(str(repo))
    assert trust.entries() == [replace(entry, files=())]
    if change == "gone":
        (repo / ".mcp.json").unlink()
    else:
        (repo / change).parent.mkdir(exist_ok=True)
        (repo / change).write_text("different")
    assert not trust.is_trusted(str(repo))
    assert [entry.changed for entry in trust.entries()] == [True]


def test_trusting_a_subdirectory_trusts_the_places_above_that_have_files(repo: Path) -> None:
    (repo / "sub").mkdir()
    (repo / "sub" / "deep").mkdir()
    entries = trust.trust(str(repo / "sub" / "deep"))
    assert [entry.path for entry in entries] == [str(repo / "sub" / "deep"), str(repo)]
    assert list(trust.up_to_top(str(repo / "sub"))) == [str(repo / "sub"), str(repo)]
    assert list(trust.up_to_top(str(repo.parent))) == [str(repo.parent)], "outside of a repository it is alone"


def test_what_belongs_to_another_user_is_not_used_unless_a_person_trusts_it(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trust.foreign_owner(str(repo)) is None and trust.foreign_owner(str(repo.parent)) is None
    owner = os.getuid() or 4242
    if owner == 4242:
        os.chown(repo / ".git", 4242, -1)
    place = str(repo / ".git") if owner == 4242 else str(repo)
    for user, sudo, ours in ((0, "", False), (0, "x", False), (0, str(owner), True), (7, str(owner), False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setenv("SUDO_UID", sudo)
        found = trust.foreign_owner(str(repo / ".treadle"))
        assert (found is None) is ours
        assert (
            ours or user == 7 or f"{place} belongs to user {owner}, so what this project says is not used" in str(found)
        )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    trust.trust(str(repo))
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert trust.foreign_owner(str(repo)) is None and trust.foreign_owner(str(repo / ".treadle"))


def test_what_cannot_be_hashed_cannot_be_trusted(repo: Path) -> None:
    with pytest.raises(ConfigError, match="config.toml is not a directory"):
        trust.trust(str(repo / ".treadle" / "config.toml"))
    (repo / ".treadle" / "link").symlink_to("/etc")
    with pytest.raises(ConfigError, match="link is not a plain file"):
        trust.trust(str(repo))
    (repo / ".treadle" / "link").unlink()
    os.mkfifo(repo / ".treadle" / "fifo")
    with pytest.raises(ConfigError, match="fifo"):
        trust.trust(str(repo))


def test_a_directory_full_of_files_or_bytes_is_refused(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "MAX_FILES", 3)
    monkeypatch.setattr(trust, "MAX_BYTES", 10)
    (repo / ".treadle" / "third").write_text("ab")
    assert trust.trust(str(repo)), "three files, and ten bytes with `exit 0` and `{}`"
    (repo / ".mcp.json").write_text("{ }")
    with pytest.raises(ConfigError, match="has more than 0 MiB .move some elsewhere"):
        trust.trust(str(repo))
    assert not trust.is_trusted(str(repo))
    (repo / ".treadle" / "fourth").touch()
    with pytest.raises(ConfigError, match="has more than 3 files .move some elsewhere"):
        trust.trust(str(repo))


def test_a_damaged_or_newer_store_is_refused_untouched(repo: Path) -> None:
    trust.trust(str(repo))
    store = Path(state_dir(), "trust.json")
    for content in (
        "{",
        "[]",
        *(json.dumps(one) for one in ({"format": 2, "trusted": {}}, {"format": 1, "trusted": []})),
    ):
        store.write_text(content)
        with pytest.raises(StorageError, match="trust.json"):
            trust.trust(str(repo))
        assert store.read_text() == content


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(6)]
    for place in places:
        place.mkdir()
    code = "import sys; from treadle.settings import trust; trust.trust(sys.argv[1])"
    running = [subprocess.Popen([sys.executable, "-c", code, str(place)]) for place in places]
    assert [process.wait(60) for process in running] == [0] * 6
    assert [entry.path for entry in trust.entries()] == sorted(map(str, places))
