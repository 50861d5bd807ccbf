"""Brute force protection for passwords."""
