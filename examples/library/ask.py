"""One turn, event by event: python ask.py "What does this project do?" """

import asyncio
import sys

import treadle


async def main(prompt: str) -> None:
    async for event in treadle.query(prompt, cwd=".", agent="native"):
        match event:
            case treadle.TextDelta(text=text):
                print(text, end="", flush=True)
            case treadle.ToolStarted(name=name, args=args):
                print(f"\n[{name} {args}]")
            case treadle.TurnEnded(outcome=outcome):
                print(f"\n({outcome})")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What does this project do?"))
