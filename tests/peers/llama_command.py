"""A llama.cpp server with the options of `llama-server` that matter for its speed; the wheel has no such program.

    python llama_command.py -m MODEL.gguf --port P [--parallel N] [--batch-size N] [--ubatch-size N] [--threads N]

The model is made if it does not exist.
"""

import argparse
import signal
from pathlib import Path

import xllamacpp
from llama_server import (  # type: ignore[import-not-found]  # beside this script
    CONTEXT,
    write_model,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--ubatch-size", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    if not asked.m.exists():
        write_model(asked.m, is_ranking=False)
    params = xllamacpp.CommonParams()
    params.model.path = str(asked.m)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = asked.port
    params.n_ctx = CONTEXT
    params.n_parallel = asked.parallel
    params.n_batch = asked.batch_size
    params.n_ubatch = asked.ubatch_size
    params.n_gpu_layers = 0
    params.warmup = False
    params.cpuparams.n_threads = asked.threads
    params.cpuparams_batch.n_threads = asked.threads
    params.n_threads_http = 8
    server = xllamacpp.Server(params)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    main()
