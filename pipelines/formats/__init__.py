"""Readers, one module per file format: bytes of one part of a source to rows and rejects."""
