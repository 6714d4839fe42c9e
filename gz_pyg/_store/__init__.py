"""What a loaded store is made of: columns in files, and what was written over them."""
