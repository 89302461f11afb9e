"""A prompt that comes with images, or mentions files as `@path`: they are shown with it."""

import os
from collections.abc import Callable
from pathlib import Path

from treadle.agent.images import show, show_document
from treadle.agent.mentioned import mentioned
from treadle.agent.messages import UserMessage
from treadle.agent.tools.base import ToolContext
from treadle.errors import ToolError
from treadle.session import Access, Decision, Prompt

MOST = 20
"""How many files are shown with one prompt."""


async def with_all(prompt: Prompt, context: ToolContext, judge: Callable[[Access], Decision] | None) -> UserMessage:
    """The prompt with its images, and with the files it mentions if a judge of what may be read is given."""
    shown = [show(data, f"image {number}", context) for number, data in enumerate(prompt.images, 1)]
    shown += [show_document(data, f"document {number}", context) for number, data in enumerate(prompt.documents, 1)]
    text = "\n".join([prompt.text, *shown])
    if judge is not None:
        text = await with_files(text, context, judge)
    return UserMessage(text=text, images=tuple(context.images))


async def with_files(text: str, context: ToolContext, judge: Callable[[Access], Decision]) -> str:
    """The prompt, followed by the files that it mentions and that may be read without asking. Images among them are
    then in the context.
    """
    from treadle.agent.tools.read_file import TOOL, ReadArgs

    parts: dict[Path, str] = {}
    for names in mentioned(text):
        name = next((name for name in names if os.path.isfile(context.resolve(name))), None)
        if name is None or context.resolve(name) in parts or len(parts) == MOST:
            continue
        args = ReadArgs(file_path=name)
        if judge(TOOL.access(args, context.resolve)).verdict != "allow":
            shown = "it may not be read here"
        else:
            try:
                shown = await TOOL.run(args, context)
            except ToolError as error:
                shown = error.message
        parts[context.resolve(name)] = f"[{name}, as it is now]\n{shown}"
    return "\n\n".join([text, *parts.values()])
