"""What every part of gz may use: dtypes, text, names, sizes, memory, locks, threads, places on disk."""

__version__ = "0.1.0"
