"""Hugging Face models in and out: the file format, the settings, and logits beside transformers'."""

import json
import struct

import pytest

torch = pytest.importorskip("torch")

from packing.cost import ModelShape  # noqa: E402
from trainer.architecture import Architecture, ArchitectureError, Stretch, read_config  # noqa: E402
from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.config import ConfigError, load_config  # noqa: E402
from trainer.huggingface import load_weights_into, read_weights, write_model  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.safetensors import DTYPES, SafetensorsError, load, save  # noqa: E402

SHAPE = ModelShape(layers=3, hidden=48, heads=6, kv_heads=2, head_dim=10, ffn=80, vocab=67)
STRETCH = Stretch(
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
KINDS = {
    "llama": (Architecture(), True),
    "llama untied": (Architecture(rope_theta=1e4, norm_eps=1e-6), False),
    "llama 3.1": (Architecture(stretch=STRETCH), False),
    "qwen 2": (Architecture(qkv_bias=True, rope_theta=1e6, norm_eps=1e-6), True),
    "qwen 3": (Architecture(qk_norm=True, rope_theta=1e6, norm_eps=1e-6), True),
}


def decoder(kind, seed=1):
    architecture, tied = KINDS[kind]
    model = Decoder(SHAPE, tied=tied, architecture=architecture)
    model.initialize(seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():  # norms and biases too are none that could be left out
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return model


def write(folder, model):
    tied = model.lm_head is None
    write_model(
        folder, dict(model.named_parameters()), SHAPE, model.architecture, tied=tied, seq_len=256
    )


def logits(model, ids):
    hidden = model(ids, torch.arange(len(ids)), [0, len(ids)])
    return model.logits(hidden).detach()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_transformers(tmp_path, kind):
    """A model that we write is loaded by transformers, and gives our logits; and the other way."""
    transformers = pytest.importorskip("transformers")
    model = decoder(kind)
    write(tmp_path / "ours", model)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "ours", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.randint(0, SHAPE.vocab, (200,), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(ids[None]).logits[0]
    torch.testing.assert_close(logits(model, ids), expected, rtol=2e-4, atol=2e-4)

    theirs.save_pretrained(tmp_path / "theirs")
    found = read_config(str(tmp_path / "theirs"))
    assert (found.shape, found.tied) == (SHAPE, KINDS[kind][1])
    assert found.architecture == model.architecture
    back = Decoder(found.shape, tied=found.tied, architecture=found.architecture)
    load_weights_into(back, tmp_path / "theirs")
    assert torch.equal(logits(back, ids), logits(model, ids))


@pytest.mark.parametrize("kind", KINDS)
def test_written_and_read(tmp_path, kind):
    """Settings and weights come back as they were, from one file or from several with an index."""
    model = decoder(kind)
    write(tmp_path, model)
    found = read_config(str(tmp_path))
    assert (found.shape, found.tied, found.architecture) == (SHAPE, *KINDS[kind][::-1])
    weights = read_weights(tmp_path)
    assert weights.keys() == dict(model.named_parameters()).keys()

    whole = load(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    names = sorted(whole)
    files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in files.items():
        save(tmp_path / file, {name: whole[name] for name in part}, {})
    index = {name: file for file, part in files.items() for name in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    back = Decoder(found.shape, tied=found.tied, architecture=found.architecture)
    load_weights_into(back, tmp_path)
    for name, weight in model.named_parameters():
        assert torch.equal(dict(back.named_parameters())[name], weight)


def test_format_to_the_byte(tmp_path):
    """The bytes are those that the format's definition gives, written out here by hand."""
    a = torch.tensor([[1, 2], [3, 4]], dtype=torch.int16)
    b = torch.tensor([1.5], dtype=torch.float32)
    save(tmp_path / "x", {"b": b, "a": a}, {"format": "pt"})
    content = (tmp_path / "x").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])

    assert json.loads(content[8 : 8 + length]) == {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "I16", "shape": [2, 2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
    }
    assert length % 8 == 0
    assert content[8 + length :] == struct.pack("<4hf", 1, 2, 3, 4, 1.5)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_type(tmp_path, dtype):
    """Each type of the format comes back bit by bit, scalars and empty tensors too."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"t{n}": torch.randint(0, 2, shape, generator=generator).to(dtype)
        for n, shape in enumerate([(), (0, 3), (7,), (2, 3, 5)])
    }
    save(tmp_path / "x", tensors, {})
    found = load(tmp_path / "x")

    assert {n: (t.dtype, t.shape) for n, t in found.items()} == {
        n: (t.dtype, t.shape) for n, t in tensors.items()
    }
    assert all(torch.equal(found[n], tensors[n]) for n in tensors)


def test_damaged_files_are_named(tmp_path):
    """Cut off, empty, with a false header or false places: refused, never read past its end."""
    save(tmp_path / "x", {"w": torch.arange(6.0)}, {})
    good = (tmp_path / "x").read_bytes()
    (length,) = struct.unpack("<Q", good[:8])
    damaged = [
        good[:-1],
        good + b"\0",
        good[:5],
        b"",
        struct.pack("<Q", 1 << 60) + good[8:],
        good[:8] + b"[" * length + good[8 + length :],
        good.replace(b'"shape":[6]', b'"shape":[7]'),
        good.replace(b'"F32"', b'"F99"'),
        good.replace(b"[0,24]", b"[4,24]"),
    ]
    for content in damaged:
        (tmp_path / "y").write_bytes(content)
        with pytest.raises(SafetensorsError, match="y: is no complete safetensors file"):
            load(tmp_path / "y")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mistral"}, "model_type 'mistral'; known are llama, qwen2 and qwen3"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'; known is 'silu'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type 'yarn'"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "rope_type 'linear'"),
        ({"hidden_size": None}, "has no 'hidden_size'"),
    ],
)
def test_models_that_are_not_known(tmp_path, change, message):
    """What would be computed otherwise is refused by its name, not ignored."""
    write(tmp_path, decoder("llama"))
    path = tmp_path / "config.json"
    config = json.loads(path.read_text()) | change
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    read_config.cache_clear()

    with pytest.raises(ArchitectureError) as caught:
        read_config(str(tmp_path))
    assert message in str(caught.value)


def test_weights_that_do_not_fit(tmp_path):
    """Missing and unknown weights and other shapes are named."""
    model = decoder("llama")
    write(tmp_path, model)
    with pytest.raises(ArchitectureError, match=r"missing layers.0.self_attn.k_proj.bias"):
        load_weights_into(decoder("qwen 2"), tmp_path)
    write(tmp_path, decoder("qwen 2"))
    with pytest.raises(ArchitectureError, match=r"unknown layers.0.self_attn.k_proj.bias, "):
        load_weights_into(model, tmp_path)


@pytest.fixture
def begun(tmp_path, write_config):
    """A configuration that begins with a model's folder, as large a vocabulary as the data's."""
    model = decoder("qwen 3")
    write(tmp_path / "model", model)
    path = write_config("begun", steps=3)
    head, _, rest = path.read_text().partition("[model]")
    rest = rest[rest.index("[training]") :]
    path.write_text(f'{head}[model]\nweights = "{tmp_path / "model"}"\n{rest}')
    read_config.cache_clear()
    return path, model


def test_train_from_weights_and_export(begun, tmp_path, capsys):
    """A run begins with given weights, goes on from its checkpoint, and gives a model's folder."""
    path, model = begun
    assert main([str(path)]) == 0
    first = json.loads((tmp_path / "begun" / "metrics.jsonl").read_text().splitlines()[0])
    config = load_config(path)
    assert config.model.architecture.qk_norm
    assert first["loss"] > 0
    path.write_text(path.read_text().replace("steps = 3", "steps = 5"))
    assert main([str(path)]) == 0
    trained = load_weights(tmp_path / "begun" / "checkpoint-5")
    assert not torch.equal(trained["norm.weight"], model.norm.weight)

    assert main([str(path), "--export", str(tmp_path / "exported")]) == 0
    assert "checkpoint-5 -> " in capsys.readouterr().err
    found = read_weights(tmp_path / "exported")
    assert all(torch.equal(found[name], trained[name]) for name in trained)
    read_config.cache_clear()
    assert read_config(str(tmp_path / "exported")).shape == SHAPE


def test_refusals_of_weights(begun, tmp_path, capsys):
    """Sizes beside weights, planned layers of Qwen, too small a vocabulary: refused with a remedy."""
    path, _ = begun
    text = path.read_text()
    path.write_text(text.replace("[model]", "[model]\nlayers = 2"))
    with pytest.raises(ConfigError, match=r"model\.weights: given beside layers"):
        load_config(path)
    path.write_text(text.replace("[training]", '[training]\nactivations = "planned"'))
    with pytest.raises(ConfigError, match="layers of Qwen are not planned"):
        load_config(path)
    path.write_text(text.replace('/model"', '/nowhere"'))
    with pytest.raises(ConfigError, match=r"nowhere.*give the folder of a Hugging Face model"):
        load_config(path)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"vocab_size": 40}))
    read_config.cache_clear()
    path.write_text(text)
    assert main([str(path)]) == 2
    assert "has 40 tokens, the dataset 53" in capsys.readouterr().err


def test_export_without_a_checkpoint(write_config, capsys, tmp_path):
    """Nothing to export ends 3, and says so."""
    assert main([str(write_config("none")), "--export", str(tmp_path / "x")]) == 3
    assert "has no checkpoint" in capsys.readouterr().err
