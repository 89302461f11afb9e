"""A sidecar in a sandbox: what the policy denies, the kernel denies."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.host.conftest import QUICK, order, scripted
from tests.host.test_run import more
from tests.io.sandbox.rooms import shown_place
from tests.machines import path_without
from tests.waiting import until
from tests.workspace.repositories import make
from treadle.drivers.card import cards
from treadle.host import run as runs
from treadle.host.confine import Cage
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.signing import key_path, make_key
from treadle.host.store import ReceiptStore
from treadle.io.sandbox import methods
from treadle.sandboxed.checks import asked_by_order
from treadle.session import Confinement
from treadle.wire.sidecar.connection import NO_POLICY

Runner = Callable[..., Any]
ON = Confinement(use="on")


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need("bwrap")
    if methods.available().method != "bubblewrap":
        pytest.skip(f"needs a sandbox: {methods.available().problems}")


def told(source: Path, task: str, **changes: Any) -> Job:
    policy = replace(NO_POLICY, deny_read=[".env"], deny_write=["keep.txt", "kept/**", "new.txt"])
    work = order(source, task=task, policy=policy)
    act = "runs_its_task_and_does_not_say_so"
    return Job(order=work, backend=scripted(act), timing=QUICK, **{"confinement": ON, **changes})


def kept_files(source: Path) -> None:
    (source / ".env").write_text("secret")
    (source / "keep.txt").write_text("keep")
    (source / "kept").mkdir()
    (source / "kept" / "a").write_text("a")


async def test_denied_files_can_neither_be_read_nor_changed(run: Runner, source: Path) -> None:
    kept_files(source)
    receipt, host = await run(
        "", told(source, "cat .env > read.txt; echo 1 > keep.txt; echo 1 > kept/b; echo 1 > a.txt")
    )
    assert receipt.outcome == "complete" and more(receipt)["policy"]["enforced"] == "kernel"
    assert receipt.verification.git_status == "M  a.txt\nA  read.txt"
    assert Path(more(receipt)["workspace"]["kept"], "read.txt").read_text() == ""


async def test_a_denied_file_that_it_makes_is_found_afterwards(run: Runner, source: Path) -> None:
    receipt, _ = await run("", told(source, "echo 1 > new.txt"))
    assert receipt.outcome == "failed" and "new.txt was changed" in more(receipt)["end"]["message"]


OFF = replace(ON, network="off")
LIMITED = replace(OFF, hosts=("a.org", "x.b.org:8080", "c.org"))
HOSTS, FREE, TOOLS = ("deny_network", "allow_network"), ("deny_network", "deny_read"), {"disallowed_tools": "observed"}


async def test_nothing_outside_is_written_and_the_signing_key_is_out_of_reach(
    run: Runner, source: Path, tmp_path: Path, state_home: Path
) -> None:
    make_key()
    outside = tmp_path / "outside"
    outside.mkdir()
    task = (
        f"cat {key_path()} > key.txt; ls {state_home} > ls.txt; echo 1 > {outside}/x; echo 1 > ../snapshots.git/config"
    )
    receipt, _ = await run("", told(source, task))
    kept = Path(more(receipt)["workspace"]["kept"])
    assert receipt.outcome == "complete" and list(outside.iterdir()) == []
    assert (kept / "key.txt").read_text() == "" and "keys" not in (kept / "ls.txt").read_text()


def test_a_program_that_lies_in_tmp_is_shown_with_what_lies_beside_it(source: Path, tmp_path: Path) -> None:
    script = tmp_path / "tools" / "host.py"
    script.parent.mkdir()
    script.write_text("")
    cage = Cage(ON, order(source), "run", str(source))
    enclosure = cage.around("mine", [sys.executable, str(script), "--flag", "/no/such/file"], os.environ)
    assert enclosure is not None
    made = enclosure.now()
    enclosure.close()
    assert made is not None and str(script.parent.resolve()) in made.read_only
    assert str(source.resolve()) in made.write


async def test_without_being_asked_it_confines_the_sidecar_and_the_check(
    run: Runner, source: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    plain = replace(told(source, f"echo 1 > {outside}/x; echo 1 > a.txt"), confinement=Confinement(use="possible"))
    receipt, _ = await run("", replace(plain, check=f"echo 1 > {outside}/y"))
    assert list(outside.iterdir()) == [] and receipt.outcome == "partial"
    assert receipt.verification.git_status == "M  a.txt"


@pytest.mark.parametrize("said", ["settings", "person"])
async def test_a_person_can_switch_it_off(
    run: Runner, source: Path, tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_SANDBOX", "0" if said == "settings" else "1")
    asked = Confinement(use="possible" if said == "settings" else "off")
    await run("", told(source, f"echo 1 > {tmp_path}/x", confinement=asked, check=f"echo 1 > {tmp_path}/y"))
    assert (tmp_path / "x").exists() and (tmp_path / "y").exists()


async def test_protected_files_that_it_makes_are_taken_out_and_named(run: Runner, source: Path) -> None:
    job = told(source, "mkdir .vscode; echo evil > .vscode/tasks.json; echo 1 > b.txt", apply=True)
    receipt, host = await run("", job)
    assert receipt.outcome == "complete" and receipt.verification.git_status == "A  b.txt"
    assert any(".vscode" in note["problem"] for note in more(receipt)["notes"])
    assert not (source / ".vscode").exists() and (source / "b.txt").exists()


async def test_changes_to_files_that_other_programs_obey_are_applied_when_a_person_agrees(
    run: Runner, source: Path
) -> None:
    job = told(source, "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; echo 1 > b.txt", apply=True)
    receipt, _ = await run("", job)
    [conflict] = more(receipt)["workspace"]["applied"]["conflicts"]
    assert conflict["path"] == ".github/workflows/ci.yml" and "--anyway" in conflict["reason"]
    assert not (source / ".github").exists() and not (source / "b.txt").exists()
    receipt, _ = await run("", replace(job, anyway=True))
    assert (source / ".github" / "workflows" / "ci.yml").exists() and (source / "b.txt").exists()


async def test_one_that_the_policy_denies_fails_the_run(run: Runner, source: Path) -> None:
    job = told(source, "mkdir .vscode; echo evil > .vscode/tasks.json")
    policy = replace(job.order.policy, deny_write=[".vscode/**", ".vscode"])
    receipt, _ = await run("", replace(job, order=replace(job.order, policy=policy)))
    assert receipt.outcome == "failed" and ".vscode was changed" in more(receipt)["end"]["message"]


async def test_a_sidecar_of_ours_stays_outside_and_is_told_how_to_confine(source: Path) -> None:
    def options(asked: Confinement) -> list[str]:
        return Cage(asked, order(source), "run", str(source)).options()

    assert options(Confinement(use="possible")) == ["--sandbox"], "it would confine nothing without being told"
    assert options(Confinement(use="on", network="off")) == ["--sandbox", "--network", "off"]
    assert options(Confinement(use="on", network="off", hosts=("a", "b"))) == ["--sandbox", "--network", "a,b"]
    assert options(Confinement(use="off")) == ["--no-sandbox"]


NETWORK: list[tuple[Confinement, dict[str, list[str]], tuple[str, tuple[str, ...]], dict[str, str]]] = [
    (ON, {"deny_network": ["*"]}, ("off", ()), {"deny_network": "kernel"}),
    (ON, {"deny_network": ["*"], "allow_network": ["a.org"]}, ("off", ()), dict.fromkeys(HOSTS, "kernel")),
    (ON, {"allow_network": ["a.org", "*.b.org"]}, ("off", ("a.org", "*.b.org")), {"allow_network": "kernel"}),
    (ON, {"allow_network": ["*"]}, ("on", ()), {"allow_network": "observed"}),
    (ON, {"allow_network": ["a?.org"]}, ("auto", ()), {"allow_network": "observed"}),
    (ON, {"deny_network": ["a.org"]}, ("auto", ()), {"deny_network": "observed"}),
    (LIMITED, {"allow_network": ["a.org", "*.b.org"]}, ("off", ("a.org", "x.b.org:8080")), {"allow_network": "kernel"}),
    (LIMITED, {"deny_network": ["c.org"]}, ("off", LIMITED.hosts), {"deny_network": "observed"}),
    (OFF, {"allow_network": ["a.org"], "deny_network": ["b.org"]}, ("off", ()), dict.fromkeys(HOSTS, "kernel")),
    (ON, {"deny_read": ["a"], "disallowed_tools": ["Bash"]}, ("auto", ()), {"deny_read": "kernel", **TOOLS}),
    (
        Confinement(use="off"),
        {"deny_network": ["*"], "deny_read": ["a"]},
        ("auto", ()),
        dict.fromkeys(FREE, "observed"),
    ),
]


@pytest.mark.parametrize(("asked", "policy", "network", "kept"), NETWORK)
def test_what_of_a_policy_the_kernel_keeps(
    source: Path, asked: Confinement, policy: dict[str, list[str]], network: tuple[str, tuple[str, ...]], kept: object
) -> None:
    cage = Cage(asked, order(source, policy=replace(NO_POLICY, **policy)), "run", str(source))
    assert (cage.asked.network, cage.asked.hosts) == network
    assert cage.enforced(guards=False, ours=False) == kept
    assert (
        set(cage.enforced(guards=True, ours=False).values())
        == {"guard"}
        == set(cage.enforced(guards=False, ours=True).values())
    )
    cage.close()


async def test_a_denied_network_is_not_there_unless_the_policy_is_only_tried(run: Runner, source: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        job = told(source, f"bash -c 'echo x > /dev/tcp/127.0.0.1/{port}' && echo reached > reached.txt; true")
        denied = replace(job.order, policy=replace(NO_POLICY, deny_network=["*"]))
        receipt, _ = await run("", replace(job, order=denied))
        assert receipt.verification.git_status == "" and more(receipt)["confinement"]["network"] == "off"
        assert more(receipt)["policy"]["enforced"] == "kernel"
        config = replace(denied.config, vendor={"abp": {"best_effort_policy": True}})
        receipt, _ = await run("", replace(job, order=replace(denied, config=config)))
        assert receipt.verification.git_status == "A  reached.txt"
        assert more(receipt)["policy"]["enforced"] == "observed" and more(receipt)["confinement"]["network"] == "on"


@pytest.mark.parametrize(("mode", "enforced"), [("staged", "kernel"), ("worktree", "observed")])
async def test_a_file_that_may_not_be_read_is_hidden_where_it_came_from_and_git_is_said_to_have_it(
    run: Runner, mode: str, enforced: str
) -> None:
    with tempfile.TemporaryDirectory(dir=shown_place()) as base:  # not in /tmp, which is another one inside
        repository = make(Path(base) / "top")
        top = Path(repository.top)
        (top / ".env").write_text("secret")
        repository.git("add", "-A")
        repository.git("commit", "-qm", "env")
        job = told(
            top, f"cat {top}/.env > a.txt; git -C {top} show HEAD:.env > b.txt; git show HEAD:.env > c.txt; true"
        )
        receipt, _ = await run("", replace(job, mode=mode))
        kept = Path(more(receipt)["workspace"]["kept"])
        read = {name for name in ("a.txt", "b.txt", "c.txt") if (kept / name).read_text()}
        assert more(receipt)["policy"]["lists"]["deny_read"] == enforced
        assert read == (set() if enforced == "kernel" else {"b.txt", "c.txt"})
        assert ("committed" in str(more(receipt)["notes"])) == (enforced == "observed")


async def test_the_check_reaches_nothing_by_default_and_says_what_allows_it(run: Runner, source: Path) -> None:
    """It runs what the agent wrote. The setup is there to download, so it has the network."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        call = f"bash -c 'echo {{}} > /dev/tcp/127.0.0.1/{server.getsockname()[1]}'"
        job = told(source, "true", setup=call.format("setup"), check=call.format("check"))
        receipt, _ = await run("", job)
        assert receipt.outcome == "partial" and heard(server) == [b"setup\n"]
        assert "A person can allow it with --network" in more(receipt)["observed"]["check"]["output_tail"]
        receipt, _ = await run("", replace(job, confinement=replace(ON, network="on")))
        assert receipt.outcome == "complete" and heard(server) == [b"setup\n", b"check\n"]
        receipt, _ = await run("", replace(job, confinement=OFF))
        assert receipt.outcome == "partial" and heard(server) == []


def heard(server: socket.socket) -> list[bytes]:
    """What those wrote who connected so far; what they connected from is gone."""
    found = []
    while True:
        try:
            taken, _ = server.accept()
        except BlockingIOError:
            return found
        with taken:
            taken.settimeout(30)
            found.append(taken.recv(100))


async def test_a_sidecar_whose_model_is_not_known_reaches_every_host_and_the_receipt_says_so(
    run: Runner, source: Path
) -> None:
    receipt, _ = await run("", told(source, "true"))
    assert more(receipt)["confinement"]["network"] == "on"
    assert any("reaches every host" in note["problem"] for note in more(receipt)["notes"])
    receipt, _ = await run("", told(source, "true", confinement=LIMITED))
    stated = more(receipt)["confinement"]
    assert (stated["network"], stated["hosts"]) == ("off", [*LIMITED.hosts])
    assert not any("reaches every host" in note["problem"] for note in more(receipt)["notes"])


def test_a_sidecar_that_is_a_known_agent_reaches_its_model(source: Path) -> None:
    made = Cage(ON, order(source), "run", str(source)).around("mine", ["/opt/bin/codex-acp"], {"HOME": "/nonexistent"})
    assert made is not None and made.warning is None and made.reaches == cards()["codex"].hosts
    made.close()


def test_the_receipt_says_whose_network_was_off(source: Path) -> None:
    def stated(asked: Confinement, **more: Any) -> tuple[str, tuple[str, ...]]:
        walls = Cage(asked, order(source), "run", str(source)).stated(**more)
        assert walls is not None
        return walls.network, walls.hosts

    assert stated(ON, covers="commands") == ("off for commands", ())
    assert stated(OFF, covers="commands") == ("off", ())
    assert stated(replace(ON, network="on"), covers="commands") == ("on", ())
    assert stated(ON, covers="agent") == ("on", ())
    assert stated(ON, covers="agent", reaches=("model.example",)) == ("off", ("model.example",))


def test_what_an_order_says_about_the_network_yields_to_the_settings_of_the_machine(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked_by_order("", str(source)).network == "auto"
    asked = asked_by_order("npm,a.org", str(source))
    assert (asked.use, asked.network, asked.hosts) == ("possible", "off", ("npm", "a.org"))
    monkeypatch.setenv("TREADLE_NETWORK", "off")
    assert asked_by_order("on", str(source)).network == "auto"


def test_where_only_landlock_is_there_the_kernel_is_not_said_to_keep_a_policy(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path_without("bwrap", tmp_path / "bin"))
    methods.available.cache_clear()
    try:
        use: Any = "on" if methods.available().method == "landlock" else "possible"
        policy = replace(NO_POLICY, deny_read=["a"], deny_write=["b"], deny_network=["*"])
        cage = Cage(Confinement(use=use), order(source, policy=policy), "run", str(source))
        assert set(cage.enforced(guards=False, ours=False).values()) == {"observed"}
        cage.close()
    finally:
        methods.available.cache_clear()


@pytest.mark.parametrize(("check", "why"), [("sleep 600", "no time left"), ("true", "could not be run")])
@pytest.mark.slow
async def test_a_check_that_no_one_asked_for_takes_nothing_from_the_result(
    source: Path, store: ReceiptStore, monkeypatch: pytest.MonkeyPatch, check: str, why: str
) -> None:
    monkeypatch.setattr(runs, "LOOK_SECONDS", 5.0)
    (source / ".treadle").mkdir()
    (source / ".treadle" / "config.toml").write_text(f'[verify]\ncheck = "{check}"\n')
    job = told(source, "echo two > b.txt", apply=True, timeout=60, finds_check=True)
    host = HostRun(job, store)
    host.observed.started -= 60  # so that none of its time is left when it is checked
    running = asyncio.create_task(host.run())
    await until(lambda: os.path.isdir(host.directory))
    if check == "true":
        Path(host.directory, "verify-1").touch()  # what is to be checked cannot be written there
    receipt = await running
    assert receipt.outcome == "complete" and (source / "b.txt").read_text() == "two\n", more(receipt)["end"]
    assert host.observed.ending is not None and host.observed.ending.state == "unverified"
    assert why in host.observed.ending.why, host.observed.ending
