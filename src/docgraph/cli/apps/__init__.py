"""`docgraph apps`: GraphQL app definitions in files and in the database."""

from docgraph.cli.apps.command import apps

__all__ = ["apps"]
