"""Tool-use conversations made from a knowledge graph, each one proved by execution."""
