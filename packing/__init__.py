"""How documents become rows, steps and bytes."""
