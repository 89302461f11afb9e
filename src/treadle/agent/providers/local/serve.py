"""The program that holds a local model: `python -m treadle.agent.providers.local.serve SETTINGS`.

It prints `ready` on stdout when the model answers, over HTTP on a Unix socket in a directory that only this user can
enter. The one who started it ends it.
"""

import json
import os
import signal
import socket
import sys

WITHOUT = 3
"""The exit code when the library is not installed."""


def main(settings: str) -> int:
    wanted = json.loads(settings)
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        print(f"local models need llama.cpp ({error})", file=sys.stderr)
        return WITHOUT
    except ImportError as error:
        print(f"llama.cpp is installed, but this system lacks what it needs: {error}", file=sys.stderr)
        return 1
    os.umask(0o077)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = wanted["path"]
    parameters.hostnames = [wanted["socket"]]
    parameters.n_ctx = wanted["context"]
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = wanted["threads"]
    parameters.cache_ram_mib = 0
    parameters.verbosity = 1
    parameters.ui = False
    if (problem := _unusable(wanted["socket"])) is not None:
        print(f"no socket can be made at {wanted['socket']}: {problem}", file=sys.stderr)
        return 1
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:  # what went wrong it has printed before
        print(error, file=sys.stderr)
        return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    os.unlink(wanted["socket"])
    del server
    os._exit(0)  # its threads may still compute, and no one waits for their results


def _unusable(place: str) -> OSError | None:
    """Why the server could not listen there: for that llama.cpp has the same words as for everything else."""
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.bind(place)
            os.unlink(place)
        except OSError as error:
            return error
    return None


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    sys.exit(main(sys.argv[1]))
