"""See what an agent does while it does it: python watch.py "PROMPT" """

import asyncio
import sys

import treadle


async def main() -> None:
    async for event in treadle.query(sys.argv[1], mode="auto-edit"):
        match event:
            case treadle.ToolStarted():
                print(f"-> {event.name} {event.command or ', '.join(event.paths)}")
            case treadle.ToolDenied():
                print(f"-- {event.name}: {event.reason}")
            case treadle.FileChanged():
                print(f"++ {event.path}")
            case treadle.TurnEnded():
                print(event.text)


asyncio.run(main())
