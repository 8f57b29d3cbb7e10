"""Kernels kept on disk bear the sources they are compiled from."""

from transforms.kernel import sources_stamp


def test_stamps_hold_the_sources_of_every_package() -> None:
    """Kernels of packing have stamps of their own too, and an unknown module has none of theirs."""
    names = ("packing.zone_fill", "packing.context_parallel", "transforms.exact", "packing.nothing")
    assert len({sources_stamp(name) for name in names}) == len(names)
