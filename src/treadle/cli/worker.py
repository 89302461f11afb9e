"""`treadle worker`: an agent as a process that another program owns."""

import sys

import click

from treadle.cli.options import serving_options
from treadle.cli.worker_entry import serve


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@serving_options
def worker(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent on stdin and stdout, one JSON object per line.

    A program starts this, writes requests, and reads events and results. Try it by hand:

    \b
      printf '%s\\n' \\
        '{"type":"init","id":"1","config":{"model":"MODEL","system_prompt":"","tools":[]}}' \\
        '{"type":"send","id":"2","message":"Say hello."}' \\
        '{"type":"shutdown","id":"3"}' | treadle worker

    The key and the model's address come from the environment (OPENROUTER_API_KEY, HEDDLE_BASE_URL, or those of other
    providers). HEDDLE_HEARTBEAT_INTERVAL sets the milliseconds between heartbeats, HEDDLE_APPROVAL_MODE what runs
    unasked. Nothing but the protocol is ever written to stdout. The protocol: treadle docs worker-protocol.
    """
    sys.exit(serve(agent, sandbox=sandbox, network=network))
