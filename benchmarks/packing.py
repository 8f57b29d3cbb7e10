"""Packing beside seven others; see packing_peers.py, which this starts.

Python looks into this folder first for the package ``packing`` when a benchmark runs; it then gets
that.
"""

if __name__ == "__main__":
    from packing_peers import main

    main()
else:
    import sys
    from importlib.machinery import PathFinder
    from pathlib import Path

    _here = Path(__file__).resolve().parent
    _package = PathFinder.find_spec("packing", [p for p in sys.path if Path(p).resolve() != _here])
    if _package is None or _package.submodule_search_locations is None:
        raise ImportError("packing is not installed; run pip install -e . in the repository")
    __path__ = list(_package.submodule_search_locations)
