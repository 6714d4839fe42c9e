"""What a store costs to train from: described, predicted (gz doctor), measured (gz bench), shown (gz demo)."""
