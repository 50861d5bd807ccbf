"""Workbench: the authoring tools behind `/_tools`; nothing is stored."""
