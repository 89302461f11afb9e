"""What we ask of forges and how we read their answers, held against what is published of their APIs.

Nothing here talks to a forge: servers of ours answer. For GitHub the OpenAPI document that it publishes says whether
both sides keep to it; for Forgejo the types and requests of Gitea's public TypeScript client; for GitLab its public
Python client, which names paths and parameters and reads what our server answers.
"""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributions import EXAMPLES
from tests.drivers.programs import CACHE, fetch
from tests.landing.forge.asked import ask_everything, repositories
from tests.landing.forge.contract import Contract
from tests.landing.forge.forgejo_server import ForgejoServer
from tests.landing.forge.github_server import GitHubServer
from tests.landing.forge.gitlab_server import GitLabServer
from tests.landing.forge.server import Exchange
from treadle.landing.forge.github import GitHub

DOCUMENT = "@octokit/openapi@23.0.2"
TYPES = "gitea-js@1.23.0"
COMPILER = "typescript@5.9"
sys.path.append(str(EXAMPLES / "forges" / "src"))
from treadle_forges.forgejo import Forgejo  # noqa: E402
from treadle_forges.gitlab import GitLab  # noqa: E402

CLIENT = "python-gitlab==8.6.0"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sesame")


# GitHub...


@pytest.fixture(scope="module")
def contract() -> Contract:
    fetch("github-openapi", DOCUMENT, "--ignore-scripts")
    place = Path(CACHE) / "github-openapi" / "node_modules/@octokit/openapi/generated/api.github.com.json"
    return Contract(json.loads(place.read_text()))


def test_every_request_to_github_and_its_answer_is_as_its_document_says(contract: Contract, tmp_path: Path) -> None:
    bare, head = repositories(tmp_path)
    with GitHubServer(bare, contract) as hub:
        asyncio.run(ask_everything(GitHub(hub.api, "shop/web", "SHOP_TOKEN"), hub, head))
        assert hub.wrong == [] and len(set(hub.asked)) >= 9


def test_a_request_or_answer_that_githubs_document_does_not_know_is_found(contract: Contract) -> None:
    path = "/repos/shop/web/pulls"
    assert contract.faults("POST", path, {}, {"head": "a", "bas": "b"}, 403, {"message": "no"})
    assert contract.faults("GET", path, {"branch": ["a"]}, None, 200, [])
    assert contract.faults("GET", f"{path}/1", {}, None, 200, {"number": "one"})


# Forgejo...


@pytest.fixture(scope="module")
def gitea() -> Path:
    fetch("gitea-types", TYPES, "--ignore-scripts")
    fetch("typescript", COMPILER, "--ignore-scripts")
    return Path(CACHE) / "gitea-types" / "node_modules/gitea-js/dist"


class GiteaCalls:
    """Exchanges, written as calls of the published client and values of its types, for its compiler to judge."""

    def __init__(self, types: Path) -> None:
        text = (types / "index.d.ts").read_text()
        found = re.findall(r"@request (\w+):(/repos/\{owner\}/\{repo\}\S*)[\s\S]*?\*/\s+(\w+): \((.*)", text)
        self.known = {(method, path): (name, rest) for method, path, name, rest in found}

    def call(self, number: int, told: Exchange) -> str:
        name, words = self._find(told)
        if told.query:
            words.append(json.dumps({key: _plain(values[0]) for key, values in told.query.items()}))
        if told.body is not None:
            words.append(json.dumps(told.body))
        line = f"export const call{number} = () => client.repos.{name}({', '.join(words)});\n"
        if told.status < 300 and told.answer is not None:
            kind = f'Awaited<ReturnType<typeof client.repos.{name}>>["data"]'
            line += f"export const answer{number}: {kind} = {json.dumps(told.answer)};\n"
        return line

    def _find(self, told: Exchange) -> tuple[str, list[str]]:
        for (method, path), (name, _) in self.known.items():
            names = re.findall(r"\{(\w+)\}", path)
            fits = re.fullmatch(re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(path)), told.path)
            if method == told.method and fits and not {"base", "diffType"} & set(names):
                return name, [
                    json.dumps(_plain(word) if key in ("index", "id") else word)
                    for key, word in zip(names, fits.groups(), strict=True)
                ]
        raise AssertionError(f"Gitea's client knows no {told.method} {told.path}")


def _plain(word: str) -> Any:
    return int(word) if word.isdigit() else word


def judged(types: Path, exchanges: list[Exchange], place: Path) -> str:
    """What the compiler says against these exchanges; nothing when they are as the types say."""
    calls = GiteaCalls(types)
    head = f'import {{ giteaApi }} from "{types}/index.js";\nconst client = giteaApi("http://forge.example", {{}});\n'
    (place / "exchanges.ts").write_text(
        head + "".join(calls.call(number, told) for number, told in enumerate(exchanges))
    )
    compiler = Path(CACHE) / "typescript" / "node_modules/typescript/bin/tsc"
    words = [
        "--noEmit",
        "--strict",
        "--skipLibCheck",
        "--target",
        "es2022",
        "--module",
        "es2022",
        "--moduleResolution",
        "bundler",
    ]
    done = subprocess.run(
        ["node", str(compiler), *words, "exchanges.ts"], cwd=place, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr


def test_every_request_to_forgejo_and_its_answer_is_as_giteas_types_say(gitea: Path, tmp_path: Path) -> None:
    bare, head = repositories(tmp_path)
    with ForgejoServer(bare) as hub:
        asyncio.run(ask_everything(Forgejo(hub.api, "shop/web", "SHOP_TOKEN"), hub, head))
    assert judged(gitea, hub.exchanges, tmp_path) == "" and len(set(hub.asked)) >= 9


def test_a_request_or_answer_that_giteas_types_do_not_know_is_found(gitea: Path, tmp_path: Path) -> None:
    path = "/repos/shop/web/pulls"
    asked = Exchange(method="POST", path=path, query={}, body={"head": "a", "bas": "b"}, status=201, answer=None)
    told = Exchange(method="GET", path=f"{path}/1", query={}, body=None, status=200, answer={"number": "one"})
    query = Exchange(method="GET", path=path, query={"head": ["a"]}, body=None, status=200, answer=[])
    for each in (asked, told, query):
        assert "error TS" in judged(gitea, [each], tmp_path)


# GitLab...

READS = """
import gitlab, json, sys
address, branch, head = sys.argv[1:]
project = gitlab.Gitlab(address, private_token="sesame").projects.get("shop/web", lazy=True)
requests = project.mergerequests
made = requests.create({"source_branch": branch, "target_branch": "main", "title": "T", "description": "D"})
(found,) = requests.list(state="opened", source_branch=branch, target_branch="main")
assert (found.iid, found.sha, found.state, found.source_branch) == (made.iid, head, "opened", branch)
made.title, made.description = "T2", "D2"
made.save()
assert requests.get(made.iid).description == "D2"
commit = project.commits.get(head, lazy=True)
assert [(each.name, each.status) for each in commit.statuses.list()] == [("ci", "failed")]
assert [each.state for each in made.reviewer_details.list()] == ["requested_changes"]
notes = [note for each in made.discussions.list() for note in each.attributes["notes"]]
assert [note["body"] for note in notes if not note["system"]] == ["no", "round"]
assert project.issues.get(7).description == "are lost"
made.merge(merge_commit_message="M", sha=head, squash=False)
assert made.state == "merged" and made.merge_commit_sha
managers = [requests, made.reviewer_details, made.discussions, commit.statuses, project.issues]
print(json.dumps({
    "paths": [each._path for each in managers],
    "create": [*requests._create_attrs.required, *requests._create_attrs.optional],
    "update": list(requests._update_attrs.optional),
    "filters": list(requests._list_filters),
}))
"""
MERGE = {"merge_commit_message", "sha", "squash"}
"""What merging takes: the client names the first and passes the rest on."""
PAGES = {"page", "per_page"}


@pytest.fixture(scope="module")
def gitlab_client() -> Path:
    place = Path(CACHE) / CLIENT.replace("==", "-")
    if not (place / "gitlab").is_dir():
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), CLIENT]
        subprocess.run(words, check=True, timeout=600)
    return place


def test_gitlabs_public_client_reads_our_server_and_knows_all_that_we_ask(gitlab_client: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    bare, head = repositories(tmp_path / "theirs")
    with GitLabServer(bare) as hub:
        hub.ends({"sha": head}, "failure")
        hub.refuses({"sha": head}, "ann", "no", "round", "a.txt", 3)
        hub.issues[7] = {"title": "Cents", "body": "are lost"}
        hub.prefix = "/api/v4"
        words = [sys.executable, "-c", READS, hub.api, "treadle/land-main", head]
        told = subprocess.run(
            words, env={"PYTHONPATH": str(gitlab_client)}, capture_output=True, text=True, timeout=120
        )
    assert told.returncode == 0, (told.stderr, hub.asked)
    known = json.loads(told.stdout)
    (tmp_path / "ours").mkdir()
    bare, head = repositories(tmp_path / "ours")
    with GitLabServer(bare) as hub:
        asyncio.run(ask_everything(GitLab(hub.api, "shop/web", "SHOP_TOKEN"), hub, head))
    assert [fault for each in hub.exchanges for fault in unknown(known, each)] == []


def unknown(known: dict[str, list[str]], told: Exchange) -> list[str]:
    """What the client does not know of an exchange."""
    path = re.sub(r"^/projects/shop/web", "/projects/{id}", told.path)
    paths = {re.sub(r"\{\w+\}", "{id}", each) for each in known["paths"]}
    plain = re.sub(r"/(\d+|\w{40})(?=/|$)", "/{id}", path)
    merges = plain == "/projects/{id}/merge_requests/{id}/merge"
    wrong = [] if merges or plain in paths or plain.removesuffix("/{id}") in paths else [f"path {path}"]
    filters = {*known["filters"], *PAGES}
    wrong += [f"parameter {name}" for name in told.query if name not in filters]
    fields = MERGE if merges else set(known["create" if told.method == "POST" else "update"])
    return wrong + [f"field {name}" for name in told.body or () if name not in fields]
