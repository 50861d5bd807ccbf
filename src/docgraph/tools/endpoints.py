"""Tools below `/_tools`: what one is, its arguments, and what it may ask about the caller.

A package declares its tools as entry points of the group `docgraph.tools`, named by their path.
"""

from docgraph.authoring.author_tool import AuthorTool, ToolAccess
from docgraph.authoring.requests import Draft, ToolArguments

__all__ = ["AuthorTool", "Draft", "ToolAccess", "ToolArguments"]
