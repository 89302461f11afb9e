"""A message of a client as a prompt."""

from treadle.session import Prompt
from treadle.wire.a2a.records import CONTENT_TYPE_NOT_SUPPORTED, A2aMessage, A2aPart
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.common.jsontext import dumps

_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml")


def prompt_of(message: A2aMessage, *, images: bool) -> Prompt:
    """Its text as it stands: a slash or an @ in it means nothing. What the agent cannot be given is refused."""
    pictures = [part.raw for part in message.parts if part.raw is not None and part.media_type.startswith("image/")]
    if pictures and not images:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, "this agent takes no images")
    text = "\n\n".join(filter(None, map(_words, message.parts)))
    if not text.strip() and not pictures:
        raise Fault(INVALID_PARAMS, "message.parts: there is nothing in them")
    return Prompt(text=text, verbatim=True, images=tuple(pictures))


def _words(part: A2aPart) -> str:
    if part.text is not None:
        return part.text
    if part.url is not None:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, "no file is fetched from an address: send its content")
    if part.raw is None:
        return dumps(part.data)
    if part.media_type.startswith("image/"):
        return ""
    if not part.media_type.startswith("text/") and part.media_type not in _TEXTS:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, f"a file of the type {part.media_type or 'unknown'!r} is not taken")
    try:
        text = part.raw.decode()
    except UnicodeDecodeError:
        raise Fault(CONTENT_TYPE_NOT_SUPPORTED, f"{part.filename or 'a file'} is not text in UTF-8") from None
    return f"{part.filename}:\n{text}" if part.filename else text
