"""What browsers get where programs get JSON: the front page, and a page for every error."""
