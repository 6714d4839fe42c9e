"""Readers of the formats people have, each as a table that comes in chunks."""
