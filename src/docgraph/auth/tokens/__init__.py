"""Tokens in place of passwords: issue, share between workers, verify, revoke."""
