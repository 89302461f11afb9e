"""In place of llama.cpp, which needs a gigabyte of weights: the scripted model at the socket that was asked for."""

import asyncio
import json
import os
import sys

from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer


async def main(settings: dict[str, str]) -> None:
    script = open(settings["path"]).read()
    if script.startswith("broken"):
        sys.exit("cannot read the weights")
    if os.path.exists(settings["socket"]):
        sys.exit("Failed to init server, please check the input params.")  # as llama.cpp does
    async with ModelServer(parse(script), socket=settings["socket"]) as server:
        print("ready", flush=True)
        await server.serve_forever()


asyncio.run(main(json.loads(sys.argv[1])))
