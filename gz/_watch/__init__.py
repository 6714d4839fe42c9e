"""What is known of the machine, of the disk under a store, of this process, and of a run as it goes."""
