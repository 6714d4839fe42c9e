"""What a loader does with a source: inputs, batches, iteration."""
