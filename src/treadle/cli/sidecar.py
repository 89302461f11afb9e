"""`treadle sidecar`: an agent for a control plane that speaks abp."""

import sys

import click

from treadle.cli.options import serving_options
from treadle.cli.sidecar_entry import serve


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@serving_options
def sidecar(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent on stdin and stdout to a control plane that speaks abp/v0.1, one JSON object per line.

    It says hello, takes orders one after the other, and answers each with events and a receipt. The end of input means
    that no more orders come; the one under way is finished. To let a control plane start it, name it in its
    backplane.toml:

    \b
      [backends.treadle]
      type = "sidecar"
      command = "treadle-sidecar"
      args = []

    The model and its key come from the order or from the environment. Nothing but the protocol is ever written to
    stdout. The protocol: treadle docs sidecar-protocol. To be the control plane yourself: treadle host run.
    """
    sys.exit(serve(agent, sandbox=sandbox, network=network))
