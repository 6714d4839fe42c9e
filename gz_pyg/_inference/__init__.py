"""gz_pyg.inference: layer by layer over all nodes of a graph."""
