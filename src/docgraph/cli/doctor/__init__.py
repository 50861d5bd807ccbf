"""`docgraph doctor`: whether everything is there for a server to work, and what to do if not."""

from docgraph.cli.doctor.command import doctor

__all__ = ["doctor"]
