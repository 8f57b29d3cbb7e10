"""Documents with special tokens in their text, where the recipe refuses them."""

import json
from pathlib import Path

import pytest

from pipelines.recipe import from_dict
from pipelines.run import run
from transforms.record import RecordError


def test_the_refused_document_is_named(tmp_path: Path) -> None:
    """The run ends with the id and the source of the document that holds a special token."""
    lines = [{"id": f"d{i}", "text": f"text number {i} " * 5} for i in range(20)]
    lines[7]["text"] += "<|im_end|>"
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    recipe = {
        "name": "refuse",
        "workdir": str(tmp_path / "work"),
        "sources": [{"name": "web", "path": str(source)}],
        "tokenizer": {"vocab_size": 400, "special_tokens": "refuse"},
        "pack": {"seq_len": 128},
    }
    with pytest.raises(RecordError, match=r"document 'd7' of source 'web' holds"):
        run(from_dict(recipe))
