"""A packed dataset as a whole: its tokenizer, and another plan over its shards."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.cost import SHAPE_SIZES
from packing.format import PLAN_FILE, DatasetInfo, DatasetManifest, PlanInfo, load_manifest
from packing.replan import replan
from packing.schedule import load_plan
from packing.shard import ShardFile, spans_of
from packing.shared_rows import place_costs
from packing.slots import BalanceSettings, imbalance
from packing.topology_settings import TopologySettings
from packing.trained import even_trained, row_targets
from packing.writer import write_plan
from packing.zone_file import piece_lengths, write_zones
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerKind, TokenizerSettings

_KINDS: dict[str, TokenizerKind] = {
    ".model": "sentencepiece",
    ".json": "hf",
    ".tiktoken": "tiktoken",
}


def decoder(folder: Path) -> Callable[[list[int]], str] | None:
    """Return what turns token ids of a dataset into text, None where it has no tokenizer file.

    Raises:
        RecordError: the tokenizer's file is damaged.
    """
    manifest = load_manifest(str(folder))
    file = next((folder / f.name for f in manifest.files if Path(f.name).suffix in _KINDS), None)
    if file is None:
        return None
    settings = _tokenizer_settings(folder, manifest, file)
    return load_encoder(file, settings).decode


def _tokenizer_settings(folder: Path, manifest: DatasetManifest, file: Path) -> TokenizerSettings:
    """Return the settings of a dataset's tokenizer, from its artifact where that is at hand."""
    mark = manifest.parents.get("tokenizer", "")
    path = folder.parent / f"tokenizer-{mark[:12]}" / "manifest.json"
    config: dict[str, Any] = json.loads(path.read_bytes())["config"] if path.exists() else {}
    names = {f.name for f in fields(TokenizerSettings)} - {"vocab_size", "model", "kind"}
    known = {name: value for name, value in config.items() if name in names}
    # Decoding needs no special token, so a folder alone must not fail for want of one.
    without = {} if config else {"bos": False, "eos": False}
    return TokenizerSettings(kind=_KINDS[file.suffix], model=str(file), **{**known, **without})


@dataclass(frozen=True, slots=True)
class Replanned:
    """Another plan of a dataset."""

    path: Path
    plan: PlanInfo
    rows: int
    first_step: int
    last_step: int
    imbalance: float
    """Work of the slowest rank of a step over that of the mean rank, mean over full steps; 1 is
    perfect, NaN without a full step."""
    zones: Path | None
    """Zone plans of the new slots, None where the dataset has none."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan's facts as plain JSON values."""
        return {
            "plan": str(self.path),
            "zones": None if self.zones is None else str(self.zones),
            "fingerprint": self.plan.plan_fingerprint,
            "dp": self.plan.dp,
            "micro_batch": self.plan.micro_batch,
            "slots_per_step": self.plan.slots_per_step,
            "rows": self.rows,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "imbalance": None if np.isnan(self.imbalance) else self.imbalance,
        }


def replan_dataset(
    folder: Path,
    *,
    dp: int,
    global_batch: int,
    from_step: int = 0,
    micro_batch: int | None = None,
    ranks_per_node: int | None = None,
) -> Replanned:
    """Write another plan over a dataset's shards, beside the first one.

    The file is named by the plan's fingerprint; the dataset itself is not changed. A reader takes
    it as ``plan``.

    Args:
        folder: the dataset.
        dp: data-parallel ranks.
        global_batch: rows of one optimizer step over all ranks.
        from_step: first step of the dataset's plan that is not trained yet.
        micro_batch: rows a rank computes at a time; as in the dataset's plan by default.
        ranks_per_node: ranks of a node: zone plans are written too. By default those of the
            dataset, which may have none.

    Raises:
        ValueError: ``global_batch`` is no multiple of ``dp`` x ``micro_batch``, or ``dp`` ranks do
            not fill their nodes.
        ShardError: the dataset is unfinished or damaged, or no row is left.
    """
    manifest = load_manifest(str(folder))
    present = load_plan(str(folder / PLAN_FILE))
    settings = BalanceSettings(
        dp=dp,
        global_batch=global_batch,
        micro_batch=present.info.micro_batch if micro_batch is None else micro_batch,
        horizon=present.info.horizon,
        **_machine(manifest, ranks_per_node),
    )
    table = present.table.take(np.argsort(present.row_id))
    cost = table["cost"].to_numpy()
    dealt = replan(
        table["step"].to_numpy(),
        cost,
        settings,
        seed=present.dataset.seed,
        from_step=from_step,
        domain=_dominant_domains(folder, manifest, len(table), len(present.dataset.domains)),
        cp=table["cp"].to_numpy(),
    )
    cp = table["cp"].to_numpy()
    trained = _trained(folder, manifest, len(table))
    if trained is not None:
        dealt = even_trained(dealt, cost, trained, cp, dp)
    cp = cp[dealt.order]
    new = pa.table(
        {
            "row_id": dealt.order,
            "step": dealt.step,
            "slot": dealt.slot,
            "rank": dealt.rank,
            "cp": cp,
            "cost": cost[dealt.order],
        }
    )
    temporary = folder / f".plan-{dp}-{global_batch}-{from_step}.parquet"
    info = write_plan(
        temporary,
        new,
        present.dataset,
        dp=dp,
        micro_batch=settings.micro_batch,
        slots_per_step=settings.slots_per_step,
        horizon=settings.horizon,
    )
    path = temporary.replace(folder / f"plan-{info.plan_fingerprint[:12]}.parquet")
    return Replanned(
        path=path,
        zones=_write_zones(folder, manifest, new, settings, (present.dataset, info)),
        plan=info,
        rows=len(new),
        first_step=int(dealt.step[0]),
        last_step=int(dealt.step[-1]),
        imbalance=imbalance(
            place_costs(cost[dealt.order], cp, dealt.step, dealt.slot, dealt.rank), settings
        )[0],
    )


def _trained(folder: Path, manifest: DatasetManifest, rows: int) -> npt.NDArray[np.int64] | None:
    """Return the trained targets of every row; None where all targets are trained."""
    found = np.zeros(rows, np.int64)
    some = False
    for entry in manifest.row_files:
        file = ShardFile(str(folder / entry.name), entry.name)
        for number in range(file.n_groups):
            table = file.read_columns(number, ["row_id", "n_tokens", "next_token", "loss_spans"])
            spans = spans_of(table["loss_spans"].combine_chunks())
            following = table["next_token"].combine_chunks()
            some |= spans is not None
            found[table["row_id"].to_numpy()] = row_targets(
                spans,
                table["n_tokens"].to_numpy().astype(np.int64),
                following.flatten().to_numpy(),
                np.diff(following.offsets.to_numpy()).astype(np.int64),
            )
        file.close()
    return found if some else None


def _machine(manifest: DatasetManifest, ranks_per_node: int | None) -> dict[str, Any]:
    """Return what a dataset's settings say of model and nodes, for another plan's settings."""
    config = manifest.config
    rates = config.get("topology")
    per_node = config.get("ranks_per_node") if ranks_per_node is None else ranks_per_node
    sizes = {name: config[name] for name in SHAPE_SIZES if name in config}
    topology = TopologySettings(**rates) if rates and per_node else None
    return {**sizes, "ranks_per_node": per_node, "topology": topology}


def _write_zones(
    folder: Path,
    manifest: DatasetManifest,
    plan: pa.Table,
    settings: BalanceSettings,
    info: tuple[DatasetInfo, PlanInfo],
) -> Path | None:
    """Write zone plans beside a plan, where the settings give nodes; return their file."""
    topology = settings.zone_topology(info[0].seq_len)
    if topology is None:
        return None
    mark = info[1].plan_fingerprint[:12]
    names = (f"zones-{mark}.parquet", f"transfers-{mark}.parquet")
    write_zones(folder, names, plan, piece_lengths(folder, manifest), topology, info)
    return folder / names[0]


def _dominant_domains(
    folder: Path, manifest: DatasetManifest, rows: int, domains: int
) -> npt.NDArray[np.int16] | None:
    """Return, for every row, the domain that has most of its tokens; None where there is one."""
    if domains < 2:
        return None
    found = np.zeros(rows, np.int16)
    for entry in manifest.row_files:
        file = ShardFile(str(folder / entry.name), entry.name)
        for number in range(file.n_groups):
            group = file.read(number)
            row = np.repeat(np.arange(group.n_rows), group.pieces_per_row)
            share = np.bincount(
                row * domains + group.domain, group.length, minlength=group.n_rows * domains
            )
            found[group.row_id] = share.reshape(-1, domains).argmax(axis=1)
        file.close()
    return found
