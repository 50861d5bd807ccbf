"""`docgraph demo`: a sample blog on an embedded MongoDB."""

from docgraph.cli.demo.command import demo

__all__ = ["demo"]
