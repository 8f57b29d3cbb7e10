"""Packed rows in the formats of other training stacks."""
