"""`docgraph completion`: the script for shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from docgraph.exchange import StartupError

_NAME = "docgraph"
_VARIABLE = "_DOCGRAPH_COMPLETE"  # the script sets it to request completions
# click's script for fish cuts the description of a command at its first comma.
_CUT_SHORT, _WHOLE = 'string split ","', 'string split --max 1 ","'
_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
    bash:  eval "$(docgraph completion bash)"          in ~/.bashrc
    zsh:   eval "$(docgraph completion zsh)"           in ~/.zshrc, after compinit
    fish:  docgraph completion fish | source           in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise StartupError(f"this version of click does not know the shell {shell!r}")
    script = found(ctx.find_root().command, {}, _NAME, _VARIABLE).source()
    click.echo(script.replace(_CUT_SHORT, _WHOLE))
