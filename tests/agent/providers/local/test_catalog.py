"""Where a local model is found."""

from pathlib import Path

import msgspec
import pytest

from treadle.agent.providers.local.models import (
    DEFAULT,
    KNOWN,
    ModelRecord,
    fetched,
    file_of,
    find,
    record_of,
)
from treadle.errors import ConfigError


def put(name: str, data: bytes, size: int | None = None) -> ModelRecord:
    Path(file_of(name)).write_bytes(data)
    record = ModelRecord(name=name, sha256="a" * 64, size=len(data) if size is None else size)
    Path(record_of(name)).write_bytes(msgspec.json.encode(record))
    return record


def test_a_fetched_model_is_found_by_its_name() -> None:
    record = put("mine", b"weights")
    assert fetched() == [record]
    found = find("mine")
    assert found.path == file_of("mine") and found.checked and found.sha256 == record.sha256
    assert find(f"mine#sha256={record.sha256}") == found


def test_a_file_that_is_cut_or_has_no_record_is_not_here() -> None:
    put("cut", b"weights", size=99)
    Path(file_of("unknown")).write_bytes(b"x")
    Path(record_of("bad")).write_text("{")
    assert fetched() == []
    with pytest.raises(ConfigError, match="not on this machine"):
        find("cut")


def test_any_file_is_found_by_its_path_with_a_hash_where_one_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"x")
    assert find(str(file)).name == "own" and not find(str(file)).sha256
    pinned = find(f"{file}#sha256={'b' * 64}")
    assert pinned.sha256 == "b" * 64 and not pinned.checked
    wrong = {f"{file}#sha256=xyz": "not a SHA-256", str(tmp_path / "gone.gguf"): "there is no model file"}
    for model, told in wrong.items():
        with pytest.raises(ConfigError, match=told):
            find(model)
    (tmp_path / "plain").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find("own.gguf").path == find("~/own.gguf").path == str(file) and find("./plain").name == "plain"


def test_what_is_missing_says_how_to_get_it() -> None:
    with pytest.raises(ConfigError, match=f"treadle models pull {DEFAULT}"):
        find(DEFAULT)
    with pytest.raises(ConfigError, match="pull https://h.example/m.gguf"):
        find("https://h.example/m.gguf")
    with pytest.raises(ConfigError, match="there are none; or name a .gguf file"):
        find("other")
    put("mine", b"w")
    put("more", b"w")
    with pytest.raises(ConfigError, match="there are mine, more; or name a .gguf file"):
        find("other")


def test_another_hash_than_the_fetched_one_is_refused() -> None:
    put("mine", b"w")
    with pytest.raises(ConfigError, match="another hash"):
        find(f"mine#sha256={'c' * 64}")


def test_parts_of_a_known_model_add_up_to_its_size() -> None:
    for model in KNOWN.values():
        source = model.source
        assert (source.count - 1) * source.part_size < model.size <= source.count * source.part_size
