"""What an agent can ask for, one file per kind of tool; none of them knows the protocol."""
