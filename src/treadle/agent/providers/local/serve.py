"""The program that holds a local model: `python -m treadle.agent.providers.local.serve SETTINGS`.

It prints `ready` on stdout when the model answers, over HTTP on a Unix socket in a directory that only this user can
enter. The one who started it ends it.
"""

import json
import os
import signal
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
    parameters.verbosity = 0
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    os.unlink(wanted["socket"])
    del server
    os._exit(0)  # its threads may still compute, and no one waits for their results


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    sys.exit(main(sys.argv[1]))
