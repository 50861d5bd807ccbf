"""How much each caller may ask for: requests a second and at a time, by address, user and role."""
