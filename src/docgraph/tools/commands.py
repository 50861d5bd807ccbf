"""Commands: options that select the configuration, output, and the stored definitions.

A package declares its commands as entry points of the group `docgraph.commands`, named by their
path: `apps.infer` is `docgraph apps infer`. This module imports little, so that help is fast;
import the others when the command runs.
"""

from docgraph.cli.apps.stored import Definitions, run_on
from docgraph.cli.completion import complete_apps
from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import make_printable, notice, paint, print_json, progress
from docgraph.config import ConfigSources

__all__ = [
    "ConfigSources",
    "Definitions",
    "complete_apps",
    "configured",
    "make_printable",
    "notice",
    "paint",
    "prepare_sources",
    "print_json",
    "progress",
    "run_on",
]
