"""What an ingest is to do, and whether it can: the spec, the room it needs, its fingerprint."""
