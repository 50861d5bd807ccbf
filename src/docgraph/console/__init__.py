"""`/console`: the page for people that the browser side in `console/` is built into."""
