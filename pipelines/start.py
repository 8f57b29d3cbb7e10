"""A quick start of the command line: libraries without the parts that no command uses.

Half of what a short run costs is importing libraries. Parts of them are optional to the libraries
themselves, which do without where an import fails; here it fails on purpose.
"""

import atexit
import contextlib
import gc
import logging
import sys
from collections.abc import Iterator

_UNUSED = (
    # Beam's transforms for BigQuery and MongoDB; file systems, of Google's too, are not among them.
    "apache_beam.io.gcp.bigquery",
    "bson",
    "pymongo",
    # Linear algebra inside kernels, of which there is none.
    "scipy",
    # Tells coverage which lines numba compiled.
    "coverage",
)

_COLLECT_AFTER = 20_000
"""Objects made since the last collection; Python's 700 suit programs that make fewer of them."""


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Import libraries without their unused parts, and leave the collector of cycles aside.

    What is imported stays to the end, so the collector never looks at it again. A part that was left
    out can be imported afterwards as ever.
    """
    hidden = [name for name in _UNUSED if name not in sys.modules]
    collecting = gc.isenabled()
    gc.disable()
    # Beam warns that it does without.
    logging.getLogger("apache_beam.io.mongodbio").setLevel(logging.ERROR)
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
        gc.freeze()
        # Libraries count at the end what is left of them.
        atexit.register(gc.unfreeze)
        gc.set_threshold(_COLLECT_AFTER, 20, 20)
        if collecting:
            gc.enable()
