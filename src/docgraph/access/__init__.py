"""Authorization: vetoers, allowers and permission rules."""
