"""Tests of change streams that need no database."""
