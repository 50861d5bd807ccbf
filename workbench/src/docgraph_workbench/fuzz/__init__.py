"""Fuzzing material of an app for `docgraph access fuzz`: document shapes and random queries."""
