"""Which sidecars there are, and which one fits."""

import sys
from pathlib import Path

import pytest

from tests.stand_ins import bad_sidecar
from treadle.errors import ConfigError, NotFound, Unsupported
from treadle.host.backends import (
    Known,
    Probe,
    best,
    command_backend,
    find_backends,
    named_backend,
    own_backend,
    probe,
    select,
)
from treadle.host.job import Backend
from treadle.settings import trust
from treadle.wire.sidecar.connection import MinSupport, Requirement, Requirements
from treadle.wire.sidecar.receipts import Manifest, ReasonGiven, Restricted

FILE = """
default_backend = "mine"
receipts_dir = "kept"
log_level = "info"

[backends.mine]
type = "sidecar"
command = "node"
args = ["host.js"]
timeout_secs = 30

[backends.pretend]
type = "mock"
"""


def test_a_file_that_is_named_counts_and_one_that_lies_here_must_be_trusted(tmp_path: Path) -> None:
    path = tmp_path / "backplane.toml"
    path.write_text(FILE)
    known = find_backends(str(path), str(tmp_path))
    assert known.backends["mine"].argv == ("node", "host.js") and known.backends["mine"].timeout == 30
    assert known.default == "mine" and known.receipts_dir == str(tmp_path / "kept")
    assert known.ignored == (f"{path}: the backend pretend is a mock, which only its own control plane has",)
    assert known.backends["mine"].source == str(path) and not known.backends["mine"].ours
    known = find_backends(None, str(tmp_path))
    assert "mine" not in known.backends and known.default is known.receipts_dir is None
    assert known.ignored == (f"{path} is not trusted: run treadle trust, or name it with --config backplane.toml",)
    with pytest.raises(NotFound, match="there is no backend 'mine' .there are native; /.* is not trusted"):
        named_backend(known, "mine")
    trust.trust(str(tmp_path))
    assert "mine" in find_backends(None, str(tmp_path)).backends
    path.write_text(FILE + "\n# changed\n")
    assert "mine" not in find_backends(None, str(tmp_path)).backends


def test_settings_and_our_own_agents_are_backends_too(tmp_path: Path, state_home: Path) -> None:
    home = state_home / "treadle"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        '[backends.other]\ncommand = "other"\nargs = ["--x"]\ntimeout_secs = 7.5\nenv = ["OTHER_KEY"]\n'
    )
    known = find_backends(None, str(tmp_path))
    assert known.backends["other"] == Backend(
        name="other", argv=("other", "--x"), env=("OTHER_KEY",), timeout=7.5, source="settings"
    )
    own = named_backend(known, "sidecar:native")
    assert own == named_backend(known, "native") == own_backend("native") and own.ours and own.source == "treadle"
    assert own.argv[0] == sys.executable and own.argv[-3:] == ("sidecar", "--agent", "native") and "-P" in own.argv
    with pytest.raises(NotFound, match="native"):
        named_backend(known, "nobody")


def test_the_environment_beats_the_file(tmp_path: Path) -> None:
    path = tmp_path / "backplane.toml"
    path.write_text(FILE)
    known = find_backends(str(path), str(tmp_path), {"ABP_DEFAULT_BACKEND": "native", "ABP_RECEIPTS_DIR": "/r"})
    assert known.default == "native" and known.receipts_dir == "/r"
    path.write_text('policy_profiles = ["a.json", "/b.json"]\n')
    known = find_backends(str(path), "/", {"ABP_RECEIPTS_DIR": "r"})
    assert known.receipts_dir == str(tmp_path / "r") and known.policy_profiles == (str(tmp_path / "a.json"), "/b.json")
    assert find_backends(None, str(tmp_path / "x"), {"ABP_RECEIPTS_DIR": "r"}).receipts_dir == str(tmp_path / "x" / "r")


@pytest.mark.parametrize(
    "text", ["[backends.x]\ntype='sidecar'\n", "not toml", "default_backend = 3\n", "[backends.x]\ntype='other'\n"]
)
def test_a_broken_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "backplane.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="backplane.toml"):
        find_backends(str(path), str(tmp_path))


def need(name: str, level: MinSupport = "any") -> Requirements:
    return Requirements(required=[Requirement(capability=name, min_support=level)])  # type: ignore[arg-type]


def offer(name: str, **capabilities: object) -> Probe:
    manifest: Manifest = capabilities  # type: ignore[assignment]
    return Probe(name=name, ok=True, milliseconds=1, capabilities=manifest)


def test_the_best_is_the_one_that_covers_most_natively() -> None:
    emulates, native = offer("a", vision="emulated"), offer("b", vision="native")
    restricted = offer("c", vision=Restricted(restricted=ReasonGiven(reason="small")))
    assert best([emulates, native, restricted], need("vision")).name == "b"
    assert best([emulates, restricted], need("vision", "emulated"), "c").name == "c"
    assert best([offer("z", vision="native"), native], need("vision")).name == "b", "by name"
    assert best([offer("z", vision="native"), native], need("vision"), "z").name == "z", "the default goes first"
    assert best([offer("a"), restricted], need("vision"), "a").name == "c", "but not before one that can do it"
    with pytest.raises(Unsupported, match="no backend meets all requirements; a lacks .*vision"):
        best([emulates], need("vision", "native"))
    with pytest.raises(NotFound, match="no backend responds: x: gone"):
        best([Probe(name="x", ok=False, milliseconds=1, error="gone")], need("vision"))


def scripted(act: str) -> Backend:
    return Backend(name=act, argv=(sys.executable, "-I", "-S", str(bad_sidecar.__file__), act))


async def test_a_probe_says_what_is_there_or_what_is_wrong() -> None:
    found = await probe(scripted("unknown_capability"))
    assert found.ok and found.capabilities == {"streaming": "native"} and "telepathy" in found.notes[0]
    assert (found.name, found.contract_version, found.mode) == ("unknown_capability", "abp/v0.1", "mapped")
    assert found.identity is not None and found.identity.id == "bad" and found.error is found.code is None
    found = await probe(scripted("exit_before_hello"))
    assert not found.ok and found.code == "peer_exited" and "cannot find module" in (found.error or "")
    assert not (await probe(command_backend("/no/such/program"))).ok


async def test_a_backend_is_chosen_by_asking_them_all() -> None:
    known = Known(
        backends={"good": scripted("good"), "native": own_backend("native"), "dead": scripted("exit_before_hello")}
    )
    assert (await select(known, need("tool_bash", "native"))).name == "native"
    with pytest.raises(Unsupported):
        await select(known, need("vision"))
    alone = Known(backends={"dead": known.backends["dead"]})
    assert await select(alone, Requirements(required=[])) == alone.backends["dead"], "the only one is not asked"
    with pytest.raises(ConfigError, match="none was chosen .name one with --backend: dead, good, native"):
        await select(known, Requirements(required=[]))
    assert (await select(Known(backends=known.backends, default="good"), Requirements(required=[]))).name == "good"


def test_a_command_that_is_none_is_refused() -> None:
    made = command_backend("/opt/node host.js 'a b'")
    assert made == Backend(name="node", argv=("/opt/node", "host.js", "a b"), source="command line")
    for text in ("", "   ", "unclosed 'quote"):
        with pytest.raises(ConfigError):
            command_backend(text)


async def test_a_probe_gets_no_more_of_the_environment_than_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "s3cret")
    monkeypatch.setenv("NAMED_KEY", "k")
    seen = tmp_path / "seen"
    argv = ("/bin/sh", "-c", f"env > {seen}")
    for names in ((), ("NAMED_KEY",)):
        result = await probe(Backend(name="odd", argv=argv, source="test", env=names))
        lines = seen.read_text().splitlines()
        assert not result.ok and not [line for line in lines if "s3cret" in line]
        assert ("NAMED_KEY=k" in lines) is bool(names)
