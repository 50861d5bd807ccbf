"""The ways a request can say who is calling, one file each."""
