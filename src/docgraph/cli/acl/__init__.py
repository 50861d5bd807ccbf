"""`docgraph acl`: permission rules by command."""

from docgraph.cli.acl.command import acl

__all__ = ["acl"]
