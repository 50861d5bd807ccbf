"""W18: W1 of the ASGI application on uvicorn, beside our own server.

uvicorn runs with uvloop and without an access log; with `httptools` it has a bar, with `h11` none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import AbstractContextManager, ExitStack

from bench.beside import compare_pairs
from bench.contest import CONFIG, Contestant, compare, running_docgraph, running_server, time_rung
from bench.workloads import WORKLOADS
from docgraph.asgi import create_app

BAR = 1.35  # times the CPU of our own server
_PARSERS = {"httptools": 18_395, "h11": 18_396}  # and their ports
_VARIABLE = "BENCH_OPTIONS"

app = create_app(overrides=json.loads(os.environ.get(_VARIABLE, "{}")))


def print_outcome(uri: str, args: argparse.Namespace) -> None:
    """The CPU of one request, and the median of the pairs."""
    workload = next(one for one in WORKLOADS if one.id == "W1")
    with ExitStack() as stack:
        docgraph = stack.enter_context(running_docgraph(uri))
        others = [stack.enter_context(_running(uri, parser)) for parser in _PARSERS]
        compare(workload, [docgraph, *others])
        result = time_rung(workload, [docgraph, *others], args)
    own = [one.cpu_ms for one in result["docgraph"].rounds]
    for parser in _PARSERS:
        rounds = [one.cpu_ms for one in result[parser].rounds]
        bar = f", bar {BAR}" if parser == "httptools" else ""
        print(
            f"{'W18-' + parser:16} {result[parser].cpu_ms:.3f} ms of CPU, our own server "
            f"{result['docgraph'].cpu_ms:.3f}, quotient {compare_pairs(rounds, own).render()}{bar}",
            flush=True,
        )


def _running(uri: str, parser: str) -> AbstractContextManager[Contestant]:
    port = _PARSERS[parser]
    options = {path: value for path, value in CONFIG.items() if path != "/http-listener/port"}
    overrides = {path: json.loads(value) for path, value in options.items()}
    overrides["/mclient/connection-string"] = uri
    command = [
        *(sys.executable, "-m", "uvicorn", "bench.asgi:app", "--port", str(port)),
        *("--http", parser, "--loop", "uvloop", "--no-access-log", "--log-level", "warning"),
    ]
    return running_server(parser, port, command, {_VARIABLE: json.dumps(overrides)})
