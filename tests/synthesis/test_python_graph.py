"""The graph of the Python installation against the interpreter itself."""

import importlib
import importlib.metadata
import inspect
from pathlib import Path

import pytest

from transforms.synthesis.graph import Graph
from transforms.synthesis.python_code import read_module
from transforms.synthesis.python_graph import python_graph

MODULES = (
    "argparse",
    "configparser",
    "csv",
    "email.message",
    "fractions",
    "http.client",
    "json.decoder",
    "logging.handlers",
    "unittest.case",
    "xml.dom.minidom",
)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return python_graph(only=("NumPy", "scipy", "pluggy")).graph


def targets(graph: Graph, entity: str, relation: str) -> set[str]:
    number = [one.id for one in graph.relations].index(relation)
    found = graph.targets(graph.number_of(entity), number)
    return {graph.entity_ids[one].partition(":")[2] for one in found.tolist()}


@pytest.mark.parametrize("name", MODULES)
def test_code_is_what_the_interpreter_says(graph: Graph, name: str) -> None:
    """Modules, bases, methods and parameters agree with the imported module."""
    module = importlib.import_module(name)
    number = [one.id for one in graph.relations].index("class/module")
    classes = graph.targets(graph.number_of(f"module:{name}"), number, inverse=True).tolist()
    found = {graph.entity_ids[one].rpartition(".")[2] for one in classes}
    real = {
        one: value
        for one, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == name and not one.startswith("_")
    }
    assert found == {one for one, value in real.items() if value.__name__ == one}
    for one in found:
        cls, key = real[one], f"class:{name}.{one}"
        bases = {f"{base.__module__}.{base.__qualname__}" for base in cls.__bases__}
        assert targets(graph, key, "class/base") <= bases
        for method in targets(graph, key, "class/method"):
            assert callable(getattr(cls, method)) or isinstance(
                inspect.getattr_static(cls, method), property | classmethod | staticmethod
            )
    number = [one.id for one in graph.relations].index("function/module")
    functions = graph.targets(graph.number_of(f"module:{name}"), number, inverse=True).tolist()
    for one in functions:
        function = getattr(module, graph.entity_ids[one].rpartition(".")[2])
        names = set(inspect.signature(inspect.unwrap(function)).parameters)
        assert targets(graph, graph.entity_ids[one], "function/parameter") <= names


def test_code_of_a_distribution_is_read(graph: Graph) -> None:
    """The modules of a small distribution are its own; those of a large one are left out."""
    assert targets(graph, "module:pluggy", "module/distribution") == {"pluggy"}
    assert not any(one.startswith("module:numpy") for one in graph.entity_ids)


def test_distributions_are_those_installed(graph: Graph) -> None:
    """Dependencies and versions are what the metadata say."""
    numpy = graph.number_of("distribution:numpy")
    attribute = [one.id for one in graph.attributes].index("distribution/version")
    assert graph.value(numpy, attribute) == importlib.metadata.version("numpy")
    assert "numpy" in targets(graph, "distribution:scipy", "distribution/dependency")
    assert targets(graph, "distribution:scipy", "distribution/licence")
    exception = [one for one, name in enumerate(graph.type_names) if name == "exception"]
    assert graph.number_of("class:json.decoder.JSONDecodeError") in graph.members_of(exception[0])


def test_a_module_is_read_without_running_it(tmp_path: Path) -> None:
    """Definitions at the top and under conditions are found; private ones and bad sources are not."""
    path = tmp_path / "m.py"
    path.write_text(
        '"""Does things."""\nimport os.path as p\nfrom a.b import C as D\nraise SystemExit\n'
        "if p:\n    class X(D, p.Y[int]):\n        def go(self): ...\n        def _no(self): ...\n"
        "def f(a, /, b, *, c=1, **d): ...\ndef _g(): ...\nclass _H: ...\n"
    )
    found = read_module("k.m", path)
    assert found is not None
    assert (found.summary, found.lines) == ("Does things.", 11)
    assert found.imports == {"os.path", "a.b"}
    assert found.names == {"p": "os.path", "D": "a.b.C"}
    assert [(one.name, one.bases, one.methods) for one in found.classes] == [
        ("X", ["D", "p.Y"], ["go"])
    ]
    assert [(one.name, one.parameters) for one in found.functions] == [("f", ["a", "b", "c"])]
    path.write_text("def broken(")
    assert read_module("m", path) is None
