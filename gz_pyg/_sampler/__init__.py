"""What the samplers are made of, and those that are not NeighborSampler."""
