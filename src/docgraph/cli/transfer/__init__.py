"""`docgraph export` and `docgraph import`: all that docgraph keeps, besides your data, as files."""

from docgraph.cli.transfer.command import export, import_

__all__ = ["export", "import_"]
