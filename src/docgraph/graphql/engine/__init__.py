"""How a plan is carried out: fetching for all parents at once, joining, completing values."""
