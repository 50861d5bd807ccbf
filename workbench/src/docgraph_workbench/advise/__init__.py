"""Advice on apps and their data: indexes, exposure, mismatches; nothing is changed."""
