"""The trainer's configuration: what it takes, and what each mistake is told (without torch)."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from trainer.config import ConfigError, TrainerConfig, load_config
from trainer.model_settings import EXPERT_SIZES

EXAMPLES = Path(__file__).parents[2] / "examples"

WHOLE = """
dataset = "d"
out = "o"
seed = 3
device = "cuda:1"
dtype = "bfloat16"
[model]
layers = 2
hidden = 128
heads = 4
kv_heads = 2
head_dim = 32
ffn = 256
tied = false
[training]
steps = 30
activations = "planned"
clip = 0.5
update = "step"
parallel = "ddp"
damaged = "skip"
[training.plan]
tile = 512
recompute_prefix = 0.25
alpha = 1
input_stride = 2
resident_layers = 0
head_groups = 2
[optimizer]
lr = 1
weight_decay = 0
betas = [0.8, 0.99]
states = "split-bf16"
[lr_scheduler]
warmup_steps = 5
decay = "wsd"
min_lr = 1e-5
[checkpoint]
interval = 5
keep_latest_k = 3
background = false
world = "same"
[anomalies]
loss_limit = 5
norm_limit = 0
window = 40
min_steps = 20
retries = 2
retry_within = 16
patience = 4
lower = 0.25
"""


def load(tmp_path, text):
    path = tmp_path / "train.toml"
    path.write_text(text)
    return load_config(path)


def mistakes(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    prefix = f"{tmp_path / 'train.toml'}: "
    lines = str(caught.value).splitlines()
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


def test_every_key_arrives(tmp_path):
    """All keys of the contract are taken, and each comes out as it was written."""
    config = load(tmp_path, WHOLE)
    found = dataclasses.asdict(config)
    written = tomllib.loads(WHOLE)
    written["optimizer"]["betas"] = tuple(written["optimizer"]["betas"])
    for absent in ("preset", "weights", *EXPERT_SIZES):
        written["model"][absent] = None

    assert found == written


def test_plan_of_the_layers(tmp_path):
    """Planned layers get the plan that was given, or the defaults; others get none."""
    config = load(tmp_path, WHOLE)
    bare = load(tmp_path, WHOLE[: WHOLE.index("[training.plan]")])
    kept = load(tmp_path, WHOLE[: WHOLE.index("[training.plan]")].replace("planned", "keep"))

    assert dataclasses.asdict(config.training.layer_plan()) == {
        "tile": 512,
        "recompute_prefix": 0.25,
        "alpha": 1.0,
        "input_stride": 2,
        "resident_layers": 0,
        "head_groups": 2,
    }
    assert bare.training.layer_plan().resident_layers == 2
    assert kept.training.layer_plan() is None


def test_defaults_are_enough(tmp_path):
    """Dataset, folder, a model and the number of steps are all that must be said."""
    config = load(
        tmp_path, 'dataset = "d"\nout = "o"\nmodel = {preset = "20m"}\ntraining.steps = 5\n'
    )

    assert config.model.shape(100).hidden == 384
    assert config.model.shape(100).vocab == 100
    assert config.training.activations == "keep"


def test_preset_with_a_size_of_its_own(tmp_path):
    """A size beside a preset replaces the preset's."""
    config = load(
        tmp_path,
        'dataset = "d"\nout = "o"\ntraining.steps = 5\n[model]\npreset = "8b"\nlayers = 4\n',
    )

    assert config.model.shape().layers == 4
    assert config.model.shape().ffn == 14336
    assert not config.model.is_tied


def test_all_mistakes_at_once(tmp_path):
    """All mistakes of a file give a line each: key, what was found, what to do."""
    text = """
out = 7
dtype = "float16"
sed = 3
[model]
layer = 2
heads = true
[training]
steps = 0
activations = "plan"
update = "layer"
clip = nan
[optimizer]
betas = [0.9]
lr = "fast"
[lr_scheduler]
decay = "cosin"
[checkpoints]
interval = 5
"""
    assert sorted(mistakes(tmp_path, text)) == sorted(
        [
            "checkpoints: unknown key; did you mean checkpoint?",
            "sed: unknown key; did you mean seed?",
            "dataset: missing; a text in quotes is needed",
            "out: expected a text in quotes, found 7",
            'dtype: "float16" is none of float32, bfloat16, float64; did you mean bfloat16?',
            "model.layer: unknown key; did you mean layers?",
            "model.heads: expected a whole number at least 1, found true",
            "training.steps: expected a whole number at least 1, found 0",
            'training.activations: "plan" is none of keep, recompute, planned; '
            "did you mean planned?",
            "training.clip: expected a number at least 0, found nan",
            "optimizer.betas: expected a list of 2 (a number at least 0 and below 1, "
            "a number at least 0 and below 1), found [0.9]",
            'optimizer.lr: expected a number more than 0, found "fast"',
            'lr_scheduler.decay: "cosin" is none of cosine, wsd, constant; did you mean cosine?',
        ]
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kv_heads = 2", "kv_heads = 3", "model.kv_heads: 3 does not divide the 4 query heads"),
        ("ffn = 256", "ffn = 256\nexperts = 4", "model: active_experts = 0 of experts = 4"),
        ("head_dim = 32", "head_dim = 33", "model.head_dim: 33 is odd"),
        ("ffn = 256", "", "model.ffn: missing; give a size, or model.preset for all of them"),
        ("layers = 2", 'preset = "20M"', 'model.preset: "20M" is none of tiny, 20m'),
        ("min_lr = 1e-5", "min_lr = 2.0", "lr_scheduler.min_lr: 2.0 is above optimizer.lr = 1.0"),
        ('device = "cuda:1"', 'device = "gpu"', 'device: "gpu" is none of auto, cpu, cuda'),
        (
            "head_groups = 2",
            "head_groups = 3",
            "training.plan.head_groups: 3 does not divide the 2",
        ),
        (
            "alpha = 1",
            "alpha = 1.5",
            "training.plan.alpha: expected a number at least 0 and at most",
        ),
        ('"planned"', '"keep"', 'training.plan: given, and training.activations = "keep"'),
        ("betas = [0.8, 0.99]", "betas = [0.8, 1.0]", "optimizer.betas[1]: expected a number"),
        ("seed = 3", "seed = 3.0", "seed: expected a whole number at least 0, found 3.0"),
        ("dataset = ", "model = 3\nx = ", "TOML"),
        ("loss_limit = 5", "loss_limit = 0", "anomalies.loss_limit: 0, as norm_limit: nothing is"),
        ("min_steps = 20", "min_steps = 41", "anomalies.min_steps: 41 is more than the window"),
        ("lower = 0.25", "lower = 1.0", "anomalies.lower: expected a number more than 0 and below"),
    ],
)
def test_each_rule(tmp_path, old, new, message):
    """Every rule names key, what was found and a remedy, in one line."""
    found = mistakes(tmp_path, WHOLE.replace(old, new, 1))

    assert len(found) == 1
    assert message in found[0]


def test_table_where_a_value_stands(tmp_path):
    """A value in the place of a table is told which table it is."""
    text = 'dataset = "d"\nout = "o"\nmodel = 3\ntraining.steps = 5\n'

    assert mistakes(tmp_path, text) == ["model: expected a table [model], found 3"]


def test_empty_file(tmp_path):
    """An empty file is told all that must be said."""
    assert mistakes(tmp_path, "") == [
        "dataset: missing; a text in quotes is needed",
        "out: missing; a text in quotes is needed",
        "training.steps: missing; a whole number at least 1 is needed",
    ]


def test_file_that_is_not_there(tmp_path):
    """A configuration that is not there is named."""
    with pytest.raises(ConfigError, match=r"none\.toml: not found"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("train-*.toml")), ids=lambda p: p.name)
def test_examples_are_valid(path):
    """Every example configuration loads."""
    assert isinstance(load_config(path), TrainerConfig)
