"""Which of the sandboxes in a directory reach a port of the first: `python neighbours.py DIRECTORY`, as JSON."""

import asyncio
import json
import sys
from pathlib import Path

from tests.io.sandbox.rooms import sh
from treadle.confinement import Confinement
from treadle.io.sandbox.start import start

LISTEN = "IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 8126) or die"
SERVE = ["perl", "-MIO::Socket::INET", "-e", f'$| = 1; $s = {LISTEN}; print "up\\n"; <STDIN>']
"""Not Python: that of the tests may lie in a home that the other user cannot enter."""
ASK = "exec 9<>/dev/tcp/127.0.0.1/8126"


async def tried(base: Path) -> dict[str, list[str]]:
    places = {name: base / name for name in ("work", "one", "two")}
    for place in places.values():
        place.mkdir()
    walls = {
        name: Confinement(use="on", network="off", write=(str(places["work"]),), temp=str(places[name]))
        for name in ("one", "two")
    }
    cwd, found = places["work"], {}
    server = await start(walls["one"], SERVE, cwd=str(cwd), stdin="pipe")
    async with server, asyncio.timeout(60):
        assert await server.stdio.read() == b"up\n"
        for name, room in (*walls.items(), ("machine", None)):
            found[name] = (await sh(room, ASK, cwd)).code == 0
        said = await sh(walls["one"], "id -u; cat /proc/self/status; ls -ld .; mount -t tmpfs x /mnt", cwd)
    found["afterwards"] = (await sh(walls["one"], ASK, cwd)).code == 0
    return {"reached": [name for name, reached in found.items() if reached], "said": said.text.splitlines()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(tried(Path(sys.argv[1])))))
