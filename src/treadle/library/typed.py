"""`output_type`: the agent's final answer as a value of a type, asked for again when it does not fit."""

import re
from typing import Any, Generic, TypeVar

import msgspec

from treadle.errors import ConfigError

T = TypeVar("T")
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


class AnswerType(Generic[T]):
    """A dataclass, msgspec Struct, TypedDict, pydantic model, or any other type that msgspec or pydantic can check."""

    def __init__(self, wanted: type[T]) -> None:
        self._wanted = wanted
        self._adapter: Any = None
        if hasattr(wanted, "__pydantic_validator__"):  # a pydantic model or dataclass, so pydantic is there
            from pydantic import TypeAdapter

            self._adapter = TypeAdapter(wanted)
        try:
            self.schema = self._adapter.json_schema() if self._adapter else msgspec.json.schema(wanted)
        except TypeError as error:
            raise ConfigError(f"output_type={wanted!r} cannot be described to a model: {error}") from None

    def demanded(self, prompt: str) -> str:
        """The prompt, with what the final message must be."""
        schema = msgspec.json.encode(self.schema).decode()
        return (
            f"{prompt}\n\nYour final message must be one JSON value that fits the schema below, and nothing else: no"
            f" prose, no code fence.\n{schema}"
        )

    def read(self, text: str) -> T:
        """The value. Raises ValueError that says what is wrong with the text."""
        fenced = FENCED.findall(text)
        data = fenced[-1] if fenced else text
        try:
            if self._adapter is not None:
                found: T = self._adapter.validate_json(data)
                return found
            return msgspec.json.decode(data.encode(), type=self._wanted)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    def again(self, complaint: str) -> str:
        return (
            f"That does not fit: {complaint}. Answer again with one JSON value that fits the schema, and nothing else."
        )
