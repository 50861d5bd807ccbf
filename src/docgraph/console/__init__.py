"""Console: `/console`, the page that the browser side in `console/` is built into."""
