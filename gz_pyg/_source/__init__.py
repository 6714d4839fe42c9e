"""What samplers and loaders take from: a store, a graph in memory, or any (FeatureStore, GraphStore)."""
