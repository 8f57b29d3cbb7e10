"""The DuckDB catalog over the artifacts of a work directory."""
