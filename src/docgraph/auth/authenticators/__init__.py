"""Who knows the users and their passwords, one file each."""
