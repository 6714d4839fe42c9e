"""gz: graphs and features far larger than RAM, in files, for PyTorch Geometric and DGL."""
