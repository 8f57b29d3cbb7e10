"""The commands of ``drystone``, by theme; :mod:`pipelines.cli` puts them together."""
