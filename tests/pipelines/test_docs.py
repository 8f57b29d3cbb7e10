"""The generated pages are current, and every command and key is documented."""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.recipe import Recipe
from pipelines.recipe_reference import hints, tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator():
    """The program that writes the pages."""
    spec = importlib.util.spec_from_file_location(
        "docs_generator", ROOT / "scripts/generate_docs.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_are_current(generator, monkeypatch, capsys):
    """What is committed is what the code says; otherwise: python scripts/generate_docs.py."""
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generator.main() == 0, capsys.readouterr().out


def test_stale_and_missing_pages_are_written_anew(generator, monkeypatch, tmp_path):
    """The check fails on an old page; without it both pages are written, and only where needed."""
    monkeypatch.setattr(generator, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "recipe.md").write_text("old")
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generator.main() == 1
    assert (tmp_path / "docs" / "recipe.md").read_text() == "old"
    monkeypatch.setattr(sys, "argv", ["generate_docs.py"])
    assert generator.main() == 0
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "docs").iterdir()}
    assert {p.name for p in times} == {"recipe.md", "cli.md"}
    generator.main()
    assert times == {p: p.stat().st_mtime_ns for p in times}


def test_every_command_has_help_for_everything(generator):
    """Each command says what it does in a sentence, and each argument and option has a help text."""
    names = dict(generator.commands())
    for name, command in names.items():
        assert re.match(r"[A-Z].*\.", command.help or ""), name
        assert all(p.help for p in command.params if p.name != "help"), name
        result = CliRunner().invoke(app, [*name.split(), "--help"])
        assert result.exit_code == 0
    expected = (
        "plan,run,query,explain,report,show,diff,verify,export,replan,gc,train,doctor,"
        "vendor reader,catalog rebuild,recipe schema,audit dedup,audit packing"
    )
    assert set(names) == set(expected.split(","))


def test_every_command_and_key_is_on_its_page(generator):
    """No command, option, table or key is left out of the references."""
    cli, recipe = generator.cli_page(), generator.recipe_page()
    for name, command in generator.commands():
        section = cli.partition(f"## `drystone {name}`")[2].partition("\n## ")[0]
        options = [o for p in command.params if p.param_type_name == "option" for o in p.opts]
        assert all(f"`{option}" in section.replace(", ", "`") for option in options), name
    for path, cls, repeated in tables(Recipe):
        title = ".".join(path)
        head = f"## `[[{title}]]`" if repeated else f"## `[{title}]`" if path else "## Top level"
        section = recipe.partition(head)[2].partition("\n## ")[0]
        assert section
        assert all(f"| `{key}` |" in section for key in hints(cls)), path


def test_commands_in_the_documentation_exist(generator):
    """Every `drystone ...` line in README and docs names a command that there is, with its options."""
    known = dict(generator.commands())
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for page in pages:
        for block in re.findall(
            r"^```(?:sh|console|bash)\n(.*?)^```", page.read_text(), re.M | re.S
        ):
            lines = block.replace("\\\n", " ")
            for line in re.findall(r"^(?:\$ )?drystone (.*)$", lines, re.M):
                words = shlex.split(line.partition(" #")[0])
                name = next((n for n in known if words[: len(n.split())] == n.split()), None)
                assert name is not None or words[0].startswith("-"), f"{page.name}: {line}"
                options = {o for p in known[name].params for o in p.opts} if name else set()
                until = words.index("--") if "--" in words else len(words)
                given = {w.partition("=")[0] for w in words[:until] if w.startswith("--")}
                assert given <= {*options, "--help", "--version"}, f"{page.name}: {line}"
