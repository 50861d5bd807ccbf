"""`docgraph doctor`: whether a server can work with this configuration, and what to fix."""

from docgraph.cli.doctor.command import doctor

__all__ = ["doctor"]
