"""What a person has chosen."""

import subprocess

from tests.installed import treadle


def once(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return treadle("-p", "hello", *arguments, env=env)
