"""A client that a public generator makes from our document submits an order, follows it, and reads its receipt."""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.conftest import Start
from tests.serve.conftest import Web
from treadle.serve import server as openapi

pytestmark = pytest.mark.slow


def generate(place: Path) -> None:
    """Make the package `generated`. A part of the document that the generator cannot read is an error."""
    (place / "openapi.json").write_text(json.dumps(openapi.document()))
    (place / "settings.yml").write_text("post_hooks: []\n")
    options = ["--path", "openapi.json", "--config", "settings.yml", "--output-path", "generated", "--meta", "none"]
    command = [sys.executable, "-m", "openapi_python_client", "generate", *options, "--fail-on-warning"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_a_generated_client_submits_follows_and_reads(
    web: Web, start_node: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_node()
    await asyncio.to_thread(generate, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    calls = {
        name: importlib.import_module(f"generated.api.default.{name}")
        for name in ("submit_order", "show_order", "show_receipt", "list_orders")
    }
    models, made = importlib.import_module("generated.models"), importlib.import_module("generated")
    made_client = made.AuthenticatedClient(base_url=web.address, token=web.token, httpx_args={"trust_env": False})
    async with made_client as client:
        body = models.OrderRequest(task="say hello", agent="null")
        given = await calls["submit_order"].asyncio(client=client, body=body, idempotency_key="hello")
        async with asyncio.timeout(60):
            while (shown := await calls["show_order"].asyncio(given.id, client=client)).receipt is None:
                await asyncio.sleep(0.05)
        assert shown.order.state == "done" and shown.spec.task == "say hello"
        receipt = await calls["show_receipt"].asyncio(given.id, client=client)
        assert (receipt.order, receipt.outcome) == (given.id, "done")
        async with asyncio.timeout(60):
            while not (listed := await calls["list_orders"].asyncio(client=client, state=["done"])).orders:
                await asyncio.sleep(0.05)
        assert [row.id for row in listed.orders] == [given.id]
        problem = await calls["show_order"].asyncio("nobody", client=client)
        assert isinstance(problem, models.HttpProblem) and problem.code == "not_found"
        other = models.OrderRequest(task="something else", agent="null")
        problem = await calls["submit_order"].asyncio(client=client, body=other, idempotency_key="hello")
        assert isinstance(problem, models.HttpProblem) and (problem.status, problem.code) == (409, "key_used")
