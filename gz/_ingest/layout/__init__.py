"""Dataset folders as downloaded, each read into a spec."""
