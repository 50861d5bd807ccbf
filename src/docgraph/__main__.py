"""`python -m docgraph` is the command `docgraph`."""

from docgraph.cli import main

if __name__ == "__main__":
    main()
