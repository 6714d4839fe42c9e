"""Training from a store: described, predicted (gz doctor), measured (gz bench), shown (gz demo)."""
