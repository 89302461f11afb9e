"""Sample conversations, one module per wire and named like it. `tests.wire.contract` checks them.

`SAMPLES` are legal conversations, each a list of (role, message) from the first message on. `CROSSINGS` are for
messages that may cross on the way: tuples of a conversation so far, then one more (role, message) from each end.
"""

import importlib
import pkgutil

import treadle.wire
from tests.wire.contract import Wire

NO_CONVERSATIONS = {
    "common": "what all wires share",
    "goal": "the format of a file",
    "models": "HTTP says where a message begins and ends, and each request stands alone",
    "a2a": "HTTP says where a message begins and ends, and each request stands alone: there is no stream to follow",
}
"""Folders without a `Connection`, each with the reason."""


def folders() -> list[str]:
    """The names of all wires in `treadle.wire`."""
    return [entry.name for entry in pkgutil.iter_modules(treadle.wire.__path__) if entry.name not in NO_CONVERSATIONS]


def wire(name: str) -> Wire:
    """The wire in the folder of this name, with its samples."""
    samples = importlib.import_module(f"tests.wire.conversations.{name}")
    connection = importlib.import_module(f"treadle.wire.{name}.connection").Connection
    return Wire(connection, samples.SAMPLES, getattr(samples, "CROSSINGS", ()))
