"""Judging what other tools made, from files alone."""
