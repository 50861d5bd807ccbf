"""`docgraph access fuzz`: search for leaks of data that is hidden from a role."""

from docgraph.cli.fuzz.command import fuzz

__all__ = ["fuzz"]
