"""What spawned workers do, in a file that imports nothing else: each of them imports it anew."""

from __future__ import annotations

from multiprocessing.connection import Connection

from docgraph.runtime import Instance

BUMPS = 2000


def work(instance: Instance, answers: Connection) -> None:
    """Count together with other workers, and say what is seen."""
    generations = instance.open_generations()
    counters = instance.open_counters(seconds=1e9)
    for _ in range(BUMPS):
        generations.bump("apps")
        counters.hit("login 127.0.0.1")
    counters.close()
    answers.send((instance.worker, instance.secret("tokens"), generations.read("apps")))
    answers.recv()  # the parent has bumped once more
    answers.send(generations.read("users"))
    generations.close()


def hold(instance: Instance, answers: Connection) -> None:
    """Lock the counters, and never unlock them."""
    generations = instance.open_generations()
    generations.bump("apps")
    with generations._file.locked():
        answers.send("locked")
        answers.recv()
