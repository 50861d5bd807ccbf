"""`docgraph access fuzz`: looks for ways to what is hidden from a role."""

from docgraph.cli.fuzz.command import fuzz

__all__ = ["fuzz"]
