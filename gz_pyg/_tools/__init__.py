"""Processes of `gz bench` and `gz demo`: what they measure of PyG, and of gz through it."""
