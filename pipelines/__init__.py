"""Wiring: recipe, stages, Beam pipelines and the command line."""
