"""The files of a store: node ids, topologies, columns and splits, phase by phase."""
