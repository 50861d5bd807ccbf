"""HTML pages for browsers: the front page, and error pages."""
