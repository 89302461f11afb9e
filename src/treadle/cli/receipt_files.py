"""How `treadle receipt` finds receipts: by path, by the run's id or its beginning, or the latest."""

import os

import click

from treadle.errors import NotFound
from treadle.host.backends import find_backends
from treadle.host.store import ReceiptStore

store_option = click.option("--store", metavar="DIR", help="Where receipts are kept. Default: yours.")


def open_store(directory: str | None) -> ReceiptStore:
    return ReceiptStore(directory or find_backends().receipts_dir)


def find_path(name: str, store: ReceiptStore) -> str:
    if os.path.exists(name):
        return name
    ids = [link.run_id for link in store.links()]
    if name == "latest" and ids:
        return store.path(ids[-1])
    fitting = [run_id for run_id in ids if run_id.startswith(name.lower())]
    if len(fitting) != 1:
        many = f"{len(fitting)} receipts begin with" if fitting else "there is no file and no receipt"
        raise NotFound(f"{many} {name!r}", hint="treadle receipt list shows them")
    return store.path(fitting[0])
