"""DGL functions that know stores, each with the signature and the result of its original."""
