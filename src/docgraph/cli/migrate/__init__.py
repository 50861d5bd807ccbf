"""`docgraph migrate`: move a RESTHeart installation to docgraph."""

from docgraph.cli.migrate.command import migrate

__all__ = ["migrate"]
