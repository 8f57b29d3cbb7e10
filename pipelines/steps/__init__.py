"""The public PTransforms, one module per stage."""
