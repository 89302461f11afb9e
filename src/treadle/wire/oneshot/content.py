"""The content of a `user` record on stdin, as a text, images and documents. What cannot be shown is refused."""

from typing import Any, NamedTuple

from treadle.errors import Unsupported
from treadle.wire.common.images import decoded

HINT = "save it as a file and name its path in the text: the agent has tools to read files"


class Content(NamedTuple):
    text: str
    images: tuple[bytes, ...] = ()
    documents: tuple[bytes, ...] = ()
    """PDFs."""


def prompt_of(content: Any) -> Content:
    """A string, or a list of blocks. Raises Unsupported for a block that is no text, image or document."""
    if not isinstance(content, list):
        return Content(content if isinstance(content, str) else "")
    texts: list[str] = []
    images: list[bytes] = []
    documents: list[bytes] = []
    for block in content:
        source = block.get("source") if isinstance(block, dict) else None
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "data": data}}:
                images.append(decoded(data))
            case {"type": "document", "source": {"type": "text", "data": str(text)}}:
                texts.append(f"<document>\n{text}\n</document>")
            case {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}:
                documents.append(decoded(data))
            case {"type": str(kind)}:
                form = source.get("media_type") or source.get("type") if isinstance(source, dict) else None
                named = f"{kind} ({form})" if form else kind
                raise Unsupported(f"a prompt cannot have a block of the kind {named}", hint=HINT)
            case _:
                raise Unsupported(
                    "a prompt has a block without a type", hint='a block is {"type": "text", "text": ...}'
                )
    return Content("\n".join(texts), tuple(images), tuple(documents))
