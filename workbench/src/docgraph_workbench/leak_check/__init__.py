"""Leak check: random requests of one caller to two worlds that differ in what is hidden."""
