"""Keeps what a run began with from the user's own `git gc --prune=now`, by a ref of ours for as long as it is needed.

A private repository and our stores borrow the objects of the commit that a run starts from. When the user amends it,
deletes its branch or rewrites it, nothing else may name it any more. All functions block.
"""

import hashlib
import os

from treadle.workspace.user_repository import UserRepository

BASE = "refs/treadle/base/"


def _refs(owner: str) -> str:
    return f"{BASE}{hashlib.blake2b(os.fsencode(os.path.realpath(owner)), digest_size=8).hexdigest()}/"


def keep(user: UserRepository, owner: str, commit: str) -> str:
    """Keep a commit for what lies in the directory `owner`, beside those that are kept for it already. Returns why that
    was not possible, as in a repository that we may only read."""
    done = user.run("update-ref", f"{_refs(owner)}{commit}", commit, check=False)
    return "" if done.code == 0 else f"{commit[:12]} is not kept from git gc: {done.complaint or 'git failed'}"


def forget(user: UserRepository, owner: str) -> None:
    """Whatever was kept for this directory is no longer needed. With the repository its refs are gone as well."""
    if not os.path.isdir(user.common):
        return
    listed = user.run("for-each-ref", "--format=delete %(refname)", _refs(owner), check=False).stdout
    if listed:
        user.run("update-ref", "--stdin", stdin=listed, check=False)
