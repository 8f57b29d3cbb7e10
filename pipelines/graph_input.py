"""Graphs of ``[[synthesize]]``: what they are read from, and reading them."""

import importlib.metadata
import platform
from pathlib import Path

from catalog.relational import is_relational
from catalog.tables import read_graph
from pipelines.artifacts import file_sha256, fingerprint
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_reading import list_files
from transforms.synthesis.graph_settle import LoadedGraph
from transforms.synthesis.language.overrides import Overrides, read_overrides
from transforms.synthesis.settings import PYTHON_GRAPH, SynthesisSettings


def graph_fingerprint(table: SynthesisSettings) -> str:
    """Return the fingerprint of what a graph is read from: the contents and names of its files.

    Raises:
        RecordError: nothing is there, or nothing of it is a graph.
    """
    path = Path(table.graph)
    if table.graph == PYTHON_GRAPH and not path.exists():
        return fingerprint(python=platform.python_version(), packages=_packages(), lang=table.lang)
    if is_relational(path):
        found = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
        files = [[one.name, file_sha256(one)] for one in found]
    else:
        listed = list_files(path)
        beside = [listed.entities, listed.relations, listed.types]
        named = [*listed.triples, *(one for one in beside if one is not None)]
        files = [[one.name, file_sha256(one.path)] for one in named]
    return fingerprint(files=files, lang=table.lang)


def _packages() -> list[str]:
    found = importlib.metadata.distributions()
    return sorted(f"{one.metadata['Name']} {one.version}" for one in found)


def load_graph(table: SynthesisSettings) -> LoadedGraph:
    """Read and normalize a graph.

    Raises:
        RecordError: there is no graph, or nothing usable is left of it.
    """
    return read_graph(Path(table.graph), name=table.graph_name, lang=table.lang)


def overrides_of(table: SynthesisSettings, graph: Graph) -> Overrides | None:
    """Read the lexicon of a table, None where it has none.

    Raises:
        RecordError: an entry of it is broken; it is named.
    """
    if table.lexicon is None:
        return None
    return read_overrides(Path(table.lexicon), table.lang, graph)
