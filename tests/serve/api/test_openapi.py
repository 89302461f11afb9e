"""The document: valid, complete, and every answer to a generated request is as it says, never a failure of ours."""

import asyncio
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.fleet.conftest import give, spec
from tests.serve.conftest import Web
from treadle.fleet.engine.bus import Bus
from treadle.serve import server as openapi
from treadle.serve.api.calls import BASE
from treadle.serve.server import every


def test_every_call_is_in_the_document_with_its_types() -> None:
    made = openapi.document()
    assert made["openapi"] == "3.1.0" and made["security"] == [{"token": []}]
    for each in every():
        operation = made["paths"][BASE + each.path][each.method.lower()]
        assert operation["summary"] and operation["operationId"] == each.name
        assert ("requestBody" in operation) == (each.body is not None)
    names = [operation["operationId"] for path in made["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
    assert set(_references(made)) <= set(made["components"]["schemas"])


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner.rpartition("/")[2]
            else:
                yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


@pytest.mark.slow
@pytest.mark.parametrize("methods", [("GET",), ("POST", "PUT", "DELETE")])
async def test_generated_requests_are_answered_as_the_document_says(
    web: Web, bus: Bus, methods: tuple[str, ...]
) -> None:
    await give(bus, spec(id="abc"))
    document = openapi.document()
    schema = schemathesis.openapi.from_dict(document)
    loop = asyncio.get_running_loop()
    tried = 0

    def run(operation: Any) -> None:
        nonlocal tried

        @given(case=operation.as_strategy())
        @settings(
            max_examples=4,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def one(case: Any) -> None:
            nonlocal tried
            if "id" in (case.path_parameters or {}):
                case.path_parameters["id"] = "abc"
            request = case.as_transport_kwargs(base_url=web.address)
            future = asyncio.run_coroutine_threadsafe(_send(web, request), loop)
            response = future.result(60)
            tried += 1
            assert response.status_code < 500, (case.method, case.path, response.text)
            said = operation.definition.raw["responses"].get(str(response.status_code))
            assert said is not None, (case.path, response.text)
            for kind, body in said.get("content", {}).items():
                assert response.headers["content-type"].startswith(kind), case.path
                if kind == "application/json":
                    wanted = {**body["schema"], "components": document["components"]}
                    jsonschema.Draft202012Validator(wanted).validate(response.json())

        one()

    def all_of_them() -> None:
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.method.upper() in methods:
                run(operation)

    await asyncio.to_thread(all_of_them)
    assert tried > 10


async def _send(web: Web, request: dict[str, Any]) -> Any:
    offered = dict(request.get("headers") or {})
    headers = {name: value for name, value in offered.items() if name.lower() != "authorization"}
    return await web.http.request(
        request["method"],
        request["url"],
        params=request.get("params"),
        json=request.get("json"),
        headers={**headers, "authorization": f"Bearer {web.token}"},
    )
