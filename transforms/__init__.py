"""What happens to documents: pure functions from arrays to arrays."""
