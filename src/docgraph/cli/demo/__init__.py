"""`docgraph demo`: the sample blog on an embedded MongoDB, open to everybody on this machine."""

from docgraph.cli.demo.command import demo

__all__ = ["demo"]
