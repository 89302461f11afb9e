"""The home directory of a confined program: what is on no list is not there, wherever the home and our files are."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.io.sandbox.rooms import shown_place
from tests.machines import path_without
from tests.safety import as_nobody
from treadle.errors import LocalError
from treadle.io.sandbox import bubblewrap, landlock, methods
from treadle.io.sandbox.start import start
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement
from treadle.settings import config
from treadle.settings.config import Hook, HookSettings, McpServer, SandboxSettings, Settings

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
PLANTED = (
    # beside programs and packages that are shown
    *(".cargo/credentials.toml", ".cargo/config.toml", ".rustup.token", ".npmrc", ".npm/token", ".yarnrc.yml"),
    *(".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml", ".local/share/uv/credentials/x.toml", ".pypirc"),
    *(
        ".m2/settings.xml",
        ".m2/settings-security.xml",
        ".gradle/gradle.properties",
        ".gradle/init.gradle",
        ".sbt/creds",
    ),
    *(".gem/credentials", ".bundle/config", ".composer/auth.json", ".config/composer/auth.json", ".config/go/env"),
    *(
        ".nuget/NuGet.Config",
        ".cache/huggingface/token",
        ".huggingface/token",
        ".conda/token",
        ".condarc",
        ".gitconfig",
    ),
    *(
        ".config/git/credentials",
        ".git-credentials",
        ".local/share/pnpm-auth",
        ".hex/hex.config",
        ".julia/servers/auth",
    ),
    *(".local/share/mise/secrets", ".config/mise/age.txt", ".asdfrc", ".pyenv-secrets", ".nvmrc.token", "go/auth"),
    *(".cache/pip-token", ".cache/uv-credentials", ".opam-token", ".pub-cache-credentials.json", ".ivy2/.credentials"),
    # of clouds, services and databases
    *(".ssh/id_ed25519", ".ssh/work/deploy", ".gnupg/secring.gpg", ".aws/credentials", ".azure/msal_token_cache.json"),
    *(".config/gcloud/credentials.db", ".kube/config", ".docker/config.json", ".config/containers/auth.json", ".netrc"),
    *(".vault-token", ".terraform.d/credentials.tfrc.json", ".terraformrc", ".pulumi/credentials.json", ".boto"),
    *(".oci/config", ".ibmcloud/config.json", ".fly/config.yml", ".config/doctl/config.yaml", ".linode-cli", ".hcloud"),
    *(
        ".config/hcloud/cli.toml",
        ".config/scw/config.yaml",
        ".config/ngrok/ngrok.yml",
        ".ngrok2/ngrok.yml",
        ".exoscale",
    ),
    *(
        ".config/vercel/auth.json",
        ".netlify/config.json",
        ".config/netlify/config.json",
        ".config/heroku/x",
        ".railway",
    ),
    *(".config/wrangler/default.toml", ".wrangler/config", ".config/supabase/access-token", ".stripe/config.toml"),
    *(".config/stripe/config.toml", ".twilio-cli/config.json", ".sentryclirc", ".databrickscfg", ".snowsql/config"),
    *(
        ".dbt/profiles.yml",
        ".config/rclone/rclone.conf",
        ".s3cfg",
        ".mc/config.json",
        ".pgpass",
        ".my.cnf",
        ".mongorc.js",
    ),
    *(".mylogin.cnf", ".cassandra/credentials", ".redis-pass", ".config/op/config", ".config/Bitwarden CLI/data.json"),
    *(".lastpass/key", ".password-store/a.gpg", ".local/share/keyrings/login.keyring", ".config/age/keys.txt"),
    *(".config/sops/age/keys.txt", ".kaggle/kaggle.json", ".config/wandb/settings", ".comet.config", ".openai/auth"),
    *(".config/openai.toml", ".cohere", ".replicate", ".config/modal.toml", ".modal.toml", ".runpod/config.toml"),
    # of people's programs, browsers and histories
    *(".config/gh/hosts.yml", ".config/glab-cli/config.yml", ".config/hub", ".config/tea/config.yml", ".jira.d/x"),
    *(".config/jira/.config.yml", ".slack-token", ".config/slack/creds", ".weechat/sec.conf", ".irssi/config"),
    *(".mozilla/a/logins.json", ".config/google-chrome/Default/Cookies", ".thunderbird/p/key4.db", ".msmtprc"),
    *(".mbsyncrc", ".config/neomutt/account", ".fetchmailrc", ".bash_history", ".zsh_history", ".psql_history"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json"),
    *(".config/amp/secrets", ".aider.conf.yml", ".cursor/token", ".kimi/mcp.json", ".bashrc", ".profile", ".envrc"),
    # with names that nobody knows
    *(
        "notes/passwords.txt",
        "Documents/key.pem",
        "work/other-project/.env",
        "secret",
        ".s",
        ".x/y/z",
        "Desktop/vpn.ovpn",
    ),
    *("backup.tar", ".local/share/acme/session", ".local/state/acme/log", ".config/acme/acme.ini", ".cache/acme/tok"),
)


def fill(home: Path) -> list[Path]:
    made = []
    for name in PLANTED:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("_authToken=canary\nindex-url=https://me:canary@host/\n[credential]\nhelper = canary\n")
        made.append(path)
    return made


@pytest.fixture(params=["home", "home below /tmp"])
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(dir=shown_place() if request.param == "home" else "/tmp", prefix="h-") as base:
        os.chmod(base, 0o755)
        place = Path(base)
        monkeypatch.setenv("HOME", base)
        monkeypatch.setenv("TREADLE_HOME", f"{base}/state")
        for name in ("CARGO_HOME", "GOPATH", "GOMODCACHE", "PIP_CACHE_DIR", "NPM_CONFIG_CACHE", "npm_config_cache"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
        for name in ("state", "w"):
            (place / name).mkdir()
        (place / "state" / "signing-key").write_text("canary")
        yield place


async def found(home: Path, settings: Settings | None = None, **asked: object) -> set[str]:
    """The files with a canary that a command finds, which looks at all of the home that it sees."""
    walls = settled(Confinement(use="on", **asked), settings or Settings())  # type: ignore[arg-type]
    made = Confining(str(home / "w"), (), walls, session="s")
    try:
        child = await start(made.now(), ["grep", "-rls", "canary", str(home)], cwd=str(home / "w"))
        async with child:
            said = b""
            while data := await child.stdio.read():
                said += data
            await child.wait()
    finally:
        made.close()
    return {os.path.relpath(path, home) for path in said.decode().split()}


async def test_nothing_of_the_home_directory_is_read_that_no_list_shows(home: Path) -> None:
    assert len(fill(home)) >= 125
    for name in (".local/bin/tool", ".cargo/registry/a.crate", ".npm/_cacache/a", ".cache/pip/a", "go/pkg/mod/a"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("canary")
    assert await found(home) == {
        ".local/bin/tool",
        ".cargo/registry/a.crate",
        ".npm/_cacache/a",
        ".cache/pip/a",
        "go/pkg/mod/a",
    }


async def test_what_the_settings_give_back_is_read_and_nothing_beside_it(home: Path) -> None:
    fill(home)
    (home / ".ssh" / "known_hosts").write_text("canary")
    given = Settings(sandbox=SandboxSettings(read=("~/.aws", "~/.ssh/known_hosts", "~/nothing")))
    assert await found(home, given) == {".aws/credentials", ".ssh/known_hosts"}


async def test_a_driven_agent_reads_its_own_and_no_other_agents(home: Path) -> None:
    fill(home)
    assert await found(home, write=(str(home / ".claude"),)) == {".claude/.credentials.json"}


async def test_of_a_home_that_is_the_workspace_no_name_with_a_dot_is_read(home: Path) -> None:
    fill(home)
    walls = Confining(str(home), (), Confinement(use="on"), session="s")
    try:
        child = await start(walls.now(), ["grep", "-rls", "canary", "."], cwd=str(home))
        async with child:
            said = await child.stdio.read()
            assert said and not [line for line in said.decode().splitlines() if line.startswith("./.")]
    finally:
        walls.close()


async def said(home: Path, script: str) -> str:
    made = Confining(str(home / "w"), (), Confinement(use="on"), session="s")
    try:
        text = b""
        for command in script.split("; then; "):
            async with await start(made.now(), ["sh", "-c", command], cwd=str(home / "w"), stderr="stdout") as child:
                while data := await child.stdio.read():
                    text += data
                await child.wait()
        return text.decode()
    finally:
        made.close()


async def test_what_a_session_adds_to_its_home_and_to_packages_is_its_own_and_lasts_as_long(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_HOME", f"{home}/rust")
    (home / "rust" / "registry").mkdir(parents=True)
    (home / "rust" / "registry" / "old").write_text("old")
    (home / ".pyenv").mkdir()
    add = "echo new > ~/rust/registry/new; rm ~/rust/registry/old; echo mine > ~/.x; echo no > ~/.pyenv/y"
    shown = await said(home, f"{add}; then; cat ~/.x; ls ~/rust/registry")
    assert shown.endswith(f"cannot create {home}/.pyenv/y: Read-only file system\nmine\nnew\n")
    assert os.listdir(home / "rust" / "registry") == ["old"] and not (home / ".x").exists()


@pytest.mark.skipif(not methods.available().divides, reason="needs overlays")
async def test_a_link_that_a_program_left_where_something_is_mounted_leads_nowhere(home: Path, tmp_path: Path) -> None:
    """bubblewrap makes mount points, and while it does, the machine outside is at /oldroot."""
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "bin" / "tool").touch()
    made = Confining(str(home / "w"), (), Confinement(use="on"), session="s")
    try:
        walls = made.now()
        assert walls is not None and walls.home is not None and walls.temp is not None
        outside = f"/oldroot{tmp_path}"
        os.symlink(outside, os.path.join(walls.home, "home", ".cargo"))
        os.symlink(outside, os.path.join(walls.home, "home", "w"))
        os.symlink(outside, os.path.join(walls.temp, home.name))
        script = "ls ~/.cargo/bin; mv ~/.cargo ~/x; rm -rf ~/.cargo; mv ~/.cargo/bin ~/y; echo made > made"
        async with await start(walls, ["sh", "-c", script], cwd=str(home / "w"), stderr="stdout") as child:
            text = b""
            while data := await child.stdio.read():
                text += data
    finally:
        made.close()
    assert text.startswith(b"tool\n") and b"Device or resource busy" in text
    assert os.listdir(tmp_path) == [] and (home / "w" / "made").exists()


def test_where_there_are_no_views_such_a_link_is_refused(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/tmp") as place:
        walls = Confinement(write=(place,), temp=str(tmp_path))
        mounts = bubblewrap.Mounts(walls, divided=False)
        assert bubblewrap.command("bwrap", walls, place, filtered=False, mounts=mounts)
        os.symlink("/oldroot/x", tmp_path / os.path.basename(place))
        with pytest.raises(LocalError, match="a command has put a link at"):
            bubblewrap.command("bwrap", walls, place, filtered=False, mounts=mounts)


async def test_two_programs_at_once_write_packages_of_their_own(home: Path) -> None:
    (home / ".cache" / "pip").mkdir(parents=True)
    made = Confining(str(home / "w"), (), Confinement(use="on"), session="s")
    try:
        first = await start(
            made.now(), ["sh", "-c", "echo a > ~/.cache/pip/a; read x"], cwd=str(home / "w"), stdin="pipe"
        )
        async with first:
            second = await start(
                made.now(), ["sh", "-c", "echo b > ~/.cache/pip/b; ls ~/.cache/pip"], cwd=str(home / "w")
            )
            async with second:
                assert await second.stdio.read() == b"b\n"
    finally:
        made.close()


async def test_settings_of_tools_are_there_without_what_is_secret_in_them(home: Path) -> None:
    (home / ".gitconfig").write_text("[user]\n name = Ann\n[credential]\n helper = store\n[http]\n extraheader = x\n")
    (home / ".npmrc").write_text("registry=https://npm.example/\n//npm.example/:_authToken=canary\n_auth=canary\n")
    (home / ".cargo").mkdir()
    (home / ".cargo" / "config.toml").write_text(
        '[source.mirror]\nregistry = "sparse+https://crates.example/"\n[registry]\ntoken = "canary"\n'
        '[registries.own]\nindex = "https://me:canary@own.example/"\n'
    )
    (home / ".tool-versions").write_text("python 3.12.1\n")
    (home / ".config/mise").mkdir(parents=True)
    (home / ".config/mise/config.toml").write_text(
        '[tools]\nnode = "22"\n"npm:prettier" = "3"\n[env]\nMINE = "canary"\n[settings]\ngithub_token = "canary"\n'
    )
    files = "~/.gitconfig ~/.npmrc ~/.cargo/config.toml ~/.tool-versions ~/.config/mise/config.toml"
    shown = await said(home, f"cat {files}")
    assert "canary" not in shown and "store" not in shown and "extraheader" not in shown
    assert all(
        text in shown for text in ('name = "Ann"', "registry=https://npm.example/", "sparse+https://crates.example/")
    )
    assert all(text in shown for text in ("python 3.12.1", '[tools]\nnode = "22"\n"npm:prettier" = "3"\n'))


@pytest.mark.skipif(landlock.problem() is not None, reason="needs Landlock")
async def test_landlock_refuses_what_is_not_shown(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fill(home)
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "tool").write_text("canary")
    monkeypatch.setenv("PATH", path_without("bwrap", tmp_path / "bin"))
    methods.available.cache_clear()
    try:
        assert methods.available().method == "landlock"
        everything = " ".join(map(str, (*fill(home), home / ".local" / "bin" / "tool")))
        assert await said(home, f"grep -ls canary {everything}") == f"{home}/.local/bin/tool\n"
    finally:
        methods.available.cache_clear()


def test_a_script_that_a_person_has_set_up_is_shown_to_itself(home: Path) -> None:
    for name in (".claude/hooks/check.sh", ".mine/server.py"):
        (home / name).parent.mkdir(parents=True)
        (home / name).touch()
    hooks = HookSettings(pre_tool=(Hook(command="~/.claude/hooks/check.sh --fast ~/.none"),))
    servers = {"mine": McpServer(command="python3", args=(f"{home}/.mine/server.py",))}
    shown = settled(Confinement(), Settings(hooks=hooks, mcp_servers=servers)).readable
    assert {os.path.relpath(one, home) for one in shown} == {".claude/hooks/check.sh", ".mine/server.py"}


async def test_a_project_gets_nothing_back_before_it_is_trusted(home: Path) -> None:
    (home / "w" / ".treadle").mkdir()
    (home / "w" / ".treadle" / "config.toml").write_text('[sandbox]\nuse = true\nread = ["~/.ssh"]\nsockets = ["/s"]\n')
    loaded = config.load(str(home / "w"), trusted=False)
    assert loaded.settings.sandbox == SandboxSettings(use=True)
    assert sorted(line.rpartition(": ")[2] for line in loaded.ignored) == ["sandbox.read", "sandbox.sockets"]
    assert config.load(str(home / "w"), trusted=True).settings.sandbox.read == ("~/.ssh",)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to become")
def test_an_ordinary_users_are_hidden_as_well_and_packages_are_layered(home: Path) -> None:
    fill(home)
    own, packages = home / "own", home / ".cargo" / "registry"
    for place in (own / "home", own / "layers", home / "temp", packages):
        place.mkdir(parents=True)
    for path in [home, *home.rglob("*")]:
        os.chown(path, as_nobody.NO_ID, as_nobody.NO_ID)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    walls = Confinement(write=(str(home / "w"),), home=str(own), temp=str(home / "temp"))
    script = f"grep -rls canary {home}; echo new > {packages}/new; mv {home}/.cargo {home}/z; ls {packages}; echo end"
    done = subprocess.run(as_nobody.argv(walls, script, home), env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("mv: cannot move") and done.stdout.endswith("busy\nnew\nend\n"), done.stdout
    assert os.listdir(packages) == []
