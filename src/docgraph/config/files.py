"""Files named by sections: users and permissions outside the configuration itself."""

from __future__ import annotations

from pathlib import Path

from docgraph.config.config_node import ConfigNode, Origin
from docgraph.config.locate import CONFIGURATION
from docgraph.config.parse import MAX_TEXT, ResolveScalar, parse_yaml
from docgraph.config.yaml_scalars import resolve_scalar
from docgraph.exchange.errors import ConfigError, Problem


def read_text(file: Path, option: str) -> str:
    """Return the text of a file; `option` is the one that names it, for errors about all of it."""
    try:
        with file.open(encoding="utf-8") as source:
            return source.read(MAX_TEXT + 1)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        message = f"the file {file} cannot be read: {reason}"
        raise ConfigError([Problem(CONFIGURATION, option, message)]) from error


def load_file(file: Path, option: str, resolve: ResolveScalar = resolve_scalar) -> ConfigNode:
    """Parse a YAML file that an option names."""
    parsed = parse_yaml(
        read_text(file, option),
        lambda line, column: Origin(str(file), line + 1, column + 1),
        resolve=resolve,
    )
    if parsed.node is None or parsed.problems:
        raise ConfigError(parsed.problems)
    return parsed.node
