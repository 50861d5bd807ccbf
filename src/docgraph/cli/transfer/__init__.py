"""`docgraph export` and `docgraph import`: everything docgraph stores besides your data."""

from docgraph.cli.transfer.command import export, import_

__all__ = ["export", "import_"]
