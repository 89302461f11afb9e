"""Small projects and changes to them, checked as `host` and `landing` check them, without a sandbox."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from treadle.receipts.trace import Check
from treadle.verification.checking import Checking
from treadle.verification.evidence import CheckEvidence
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import write_files
from treadle.workspace.store import Store

Files = Mapping[str, str]


def tree_of(store: Store, files: Files) -> str:
    """Files whose text begins with `#!` are programs."""
    entries = {
        path: TreeEntry(mode="100755" if text.startswith("#!") else "100644", blob=store.put("blob", text.encode()))
        for path, text in files.items()
    }
    return store.put_files(entries)


def verified(tmp_path: Path, base: Files, work: Files, command: str, *, prove: bool = False) -> CheckEvidence:
    """What is known of a change after the check."""
    store = Store.make(str(tmp_path / "store"))
    places = iter(range(1000))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # what is installed beside it takes seconds to load

    async def run(tree: str) -> Check:
        here = tmp_path / f"check-{next(places)}"
        write_files(store, store.files(tree), str(here))
        done = await asyncio.to_thread(
            subprocess.run,
            ["sh", "-c", command],
            cwd=here,
            env=environment,
            capture_output=True,
            timeout=300,  # Go builds its library first
            check=False,
        )
        return Check(command=command, exit_code=done.returncode, output_tail=(done.stdout + done.stderr).decode())

    checking = Checking(store, command, run, prove=prove)
    return asyncio.run(checking.verify(tree_of(store, base), tree_of(store, work))).evidence
