"""`--json-schema`: the final answer must be JSON that fits a schema, or it is asked for again in the same session."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from treadle.errors import ConfigError, MissingExtra
from treadle.io.opening import opened
from treadle.session import Instructions, SessionSpec

RETRIES = 2
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


class SchemaCheck:
    def __init__(self, schema: Any, where: str = "the schema") -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise MissingExtra("--json-schema", "schema") from None
        try:
            self._validator = jsonschema_rs.validator_for(schema)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{where} is not a JSON Schema: {str(error).splitlines()[0]}") from None
        self.schema = schema
        self.retries = RETRIES

    @classmethod
    def load(cls, given: str) -> SchemaCheck:
        """Load a schema from a file, or from the text itself."""
        inline = given.lstrip().startswith(("{", "true", "false"))
        where = "the schema" if inline else given
        try:
            text = given.encode() if inline else _read(given)
            return cls(msgspec.json.decode(text), where)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{where} is not valid JSON: {error}") from None

    def instruct(self, spec: SessionSpec) -> SessionSpec:
        """Tell the agent from the beginning what its last message must be."""
        return msgspec.structs.replace(spec, instructions=self.added(spec.instructions))

    def added(self, instructions: Instructions) -> Instructions:
        text = (
            "Your final message must be one JSON value that fits the schema below, and nothing else: no prose, no "
            f"code fence.\n{msgspec.json.encode(self.schema).decode()}"
        )
        before = f"{instructions.append}\n\n" if instructions.append else ""
        return msgspec.structs.replace(instructions, append=before + text)

    def examine(self, text: str) -> tuple[Any, str | None]:
        """The value, or what is wrong with the text."""
        fenced = FENCED.findall(text)
        try:
            value = msgspec.json.decode(fenced[-1] if fenced else text)
        except (msgspec.DecodeError, RecursionError) as error:
            return None, f"it is not JSON: {error}"
        for fault in self._validator.iter_errors(value):
            place = "/".join(map(str, fault.instance_path)) or "the value"
            return None, f"{place}: {fault.message}"
        return value, None

    def again(self, complaint: str) -> str:
        return (
            f"That does not fit the schema: {complaint}. Answer again with one JSON value that fits, and nothing else."
        )


def _read(path: str) -> bytes:
    try:
        with opened(path) as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read the schema {path}: {error.strerror}") from None
