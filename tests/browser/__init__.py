"""Tests of the console in a real browser; skipped where there is none, or nothing is built."""
