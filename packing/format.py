"""The shard format: schemas, what the footers say, and the dataset's manifest.

A dataset is a folder: ``rows-*.parquet`` (one packed row a Parquet row, in the order of the first
plan), ``plan.parquet``, the tokenizer's own file and ``manifest.json``. ``docs/shard-format.md``
describes it for readers in other languages.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

FORMAT_VERSION = 1
IGNORED_LABEL = -100
"""Label of a position that is not trained, as PyTorch's cross entropy expects it."""

METADATA_PREFIX = "drystone."
PLAN_FILE = "plan.parquet"
MANIFEST_FILE = "manifest.json"


def _list_of(value: pa.DataType) -> pa.DataType:
    """Return a list type without null elements: it halves the levels a reader decodes."""
    return pa.list_(pa.field("element", value, nullable=False))


SPAN_TYPE = pa.struct(
    [
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
        pa.field("weight", pa.float32(), nullable=False),
    ]
)

ROW_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("n_tokens", pa.int32(), nullable=False),
        pa.field("input_ids", _list_of(pa.int32()), nullable=False),
        pa.field("cu_seqlens", _list_of(pa.int32()), nullable=False),
        pa.field("doc_uid", _list_of(pa.int64()), nullable=False),
        pa.field("doc_copy", _list_of(pa.int16()), nullable=False),
        pa.field("doc_offset", _list_of(pa.int32()), nullable=False),
        pa.field("next_token", _list_of(pa.int32()), nullable=False),
        pa.field("loss_spans", _list_of(SPAN_TYPE), nullable=True),
        pa.field("domain", _list_of(pa.int16()), nullable=False),
    ]
)
"""Columns of ``rows-*.parquet``."""

PLAN_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("cp", pa.int16(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
    ]
)
"""Columns of ``plan.parquet``; the first plan stands in the order of the rows in the shards."""


class ShardError(RuntimeError):
    """Packed data or a plan that cannot be used; says what, where, what was found, what to do."""


def footer(record: Any) -> dict[bytes, bytes]:
    """Return a dataclass as Parquet footer key-values: one JSON value per field."""
    return {
        f"{METADATA_PREFIX}{f.name}".encode(): json.dumps(
            getattr(record, f.name), ensure_ascii=True, sort_keys=True
        ).encode()
        for f in fields(record)
    }


def from_footer(names: list[str], metadata: Mapping[bytes, bytes] | None, where: str) -> Any:
    """Read the named values from footer key-values; refuse what another version wrote."""
    found = metadata or {}
    version = found.get(f"{METADATA_PREFIX}version".encode())
    if version is None:
        raise ShardError(
            f"{where}: its footer has no {METADATA_PREFIX}version, so it is no packed shard or "
            "plan; give the folder of a packed dataset"
        )
    if version != str(FORMAT_VERSION).encode():
        raise ShardError(
            f"{where}: format version {version.decode(errors='replace')}, this reader knows {FORMAT_VERSION}; "
            "use the reader that came with the dataset, or build the dataset again"
        )
    try:
        return {name: json.loads(found[f"{METADATA_PREFIX}{name}".encode()]) for name in names}
    except (KeyError, ValueError) as error:
        raise ShardError(
            f"{where}: footer value {error} is missing or damaged; restore the file"
        ) from error


_LATER = ("align", "widest")
"""Values of the footer that came after the first datasets, each with a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What every file of a dataset says of it in its footer."""

    fingerprint: str
    """Fingerprint of the dataset, sha256 in hex."""
    seq_len: int
    """Tokens a row can hold (``cp`` times as many in a row shared by ``cp`` ranks)."""
    strategy: str
    """Packing strategy, e.g. ``best_fit`` or ``concat``."""
    vocab_size: int
    """Token ids lie in ``[0, vocab_size)``."""
    bos_id: int | None = None
    """Id that begins a document, or None."""
    eos_id: int | None = None
    """Id that ends a document, or None."""
    pad_id: int | None = None
    """The tokenizer's own padding id, or None; see :attr:`padding_id`."""
    tokenizer: str = ""
    """Name of the tokenizer's file in the folder."""
    tokenizer_sha256: str = ""
    """sha256 (hex) of the tokenizer's file."""
    domains: tuple[str, ...] = ()
    """Names that the column ``domain`` indexes."""
    seed: int = 0
    """Seed of the recipe."""
    align: int = 1
    """Tokens of a row that a piece takes are a multiple of this."""
    widest: int = 1
    """The most ranks that may share a row, so that longer documents are cut at ``widest`` x
    ``seq_len`` tokens."""
    version: int = FORMAT_VERSION
    """Version of the shard format."""

    @property
    def padding_id(self) -> int:
        """Id that fills a row up: the padding id, else the end-of-sequence id, else 0."""
        if self.pad_id is not None:
            return self.pad_id
        return self.eos_id if self.eos_id is not None else 0

    def to_metadata(self) -> dict[bytes, bytes]:
        """Return the Parquet footer key-values, one per field, values in JSON."""
        return footer(self)

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, where: str) -> Self:
        """Restore the record from a file's footer.

        Args:
            metadata: key-values of the footer, or None where it has none.
            where: name of the file, for messages.

        Raises:
            ShardError: the footer is missing, damaged, or of another format version.
        """
        names = [f.name for f in fields(cls)]
        # Datasets that were written before there was such a value do not have it.
        absent = [n for n in _LATER if f"{METADATA_PREFIX}{n}".encode() not in (metadata or {})]
        values = from_footer([n for n in names if n not in absent], metadata, where)
        return cls(**{**values, "domains": tuple(values["domains"] or ())})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInfo:
    """The shape of a plan, from the footer of its file."""

    plan_fingerprint: str
    """:func:`plan_fingerprint` of the table."""
    dp: int
    """Ranks the plan was made for."""
    micro_batch: int
    """Rows of one slot per rank."""
    slots_per_step: int
    """Micro-batches in a full step; the last step may have fewer."""
    horizon: int = 1
    """Steps that were dealt together."""

    @property
    def slot_rows(self) -> int:
        """Rows of a full slot (places, where rows are shared by several ranks)."""
        return self.dp * self.micro_batch

    def to_metadata(self) -> dict[bytes, bytes]:
        """Return the Parquet footer key-values, one per field, values in JSON."""
        return footer(self)

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, where: str) -> Self:
        """Restore the record from the footer of a plan.

        Raises:
            ShardError: the footer is missing, damaged, or of another format version.
        """
        return cls(**from_footer([f.name for f in fields(cls)], metadata, where))


def plan_fingerprint(dataset: str, info: tuple[int, int, int], table: pa.Table) -> str:
    """Return the fingerprint that a reader's state is bound to.

    Args:
        dataset: fingerprint of the dataset.
        info: (dp, micro_batch, slots_per_step).
        table: the plan, columns as :data:`PLAN_SCHEMA`.

    Returns:
        sha256 in hex of these and of the columns row_id, step, slot, rank and cp.
    """
    digest = hashlib.sha256(f"{dataset} {info[0]} {info[1]} {info[2]}\n".encode())
    for field in PLAN_SCHEMA:
        if field.name != "cost":
            values: npt.NDArray[Any] = np.ascontiguousarray(table[field.name].to_numpy())
            digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """One file of a dataset as its manifest lists it."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """The dataset's ``manifest.json``, as far as a reader needs it."""

    stage: str
    fingerprint: str
    parents: Mapping[str, str]
    config: Mapping[str, Any]
    files: tuple[DatasetFile, ...]
    counters: Mapping[str, int]

    @property
    def row_files(self) -> list[DatasetFile]:
        """The shards, in the order of their rows."""
        found = [f for f in self.files if f.name.startswith("rows-")]
        return sorted(found, key=lambda f: f.name)


def load_manifest(folder: str, filesystem: fs.FileSystem | None = None) -> DatasetManifest:
    """Read ``manifest.json`` of a dataset or of another artifact.

    Args:
        folder: path of the folder on that file system.
        filesystem: where the folder is; the local file system by default.

    Raises:
        ShardError: there is no manifest, or it cannot be understood.
    """
    path = f"{folder.rstrip('/')}/{MANIFEST_FILE}"
    try:
        with (filesystem or fs.LocalFileSystem()).open_input_stream(path) as stream:
            value = json.loads(stream.read())
    except FileNotFoundError as error:
        raise ShardError(
            f"{path}: not found, so {folder} is no finished dataset; finish the run that writes it"
        ) from error
    except (OSError, ValueError) as error:
        raise ShardError(f"{path}: cannot be read ({error}); restore the file") from error
    try:
        files = tuple(
            DatasetFile(f["name"], int(f["rows"]), int(f["bytes"]), f["sha256"])
            for f in value["files"]
        )
        return DatasetManifest(
            value["stage"],
            value["fingerprint"],
            value["parents"],
            value.get("config", {}),
            files,
            value.get("counters", {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"{path}: is no manifest ({error!r}); restore the file") from error


def stream_sha256(path: str, filesystem: fs.FileSystem | None = None) -> str:
    """Return the sha256 (hex) of a file's bytes, read in pieces of 4 MiB."""
    digest = hashlib.sha256()
    with (filesystem or fs.LocalFileSystem()).open_input_stream(path) as stream:
        while chunk := stream.read(4 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check_file(folder: str, entry: DatasetFile, filesystem: fs.FileSystem | None = None) -> None:
    """Compare a file with its manifest entry.

    Raises:
        ShardError: the file is missing, or its bytes are others than when it was written.
    """
    path = f"{folder.rstrip('/')}/{entry.name}"
    try:
        found = stream_sha256(path, filesystem)
    except FileNotFoundError as error:
        raise ShardError(f"{path}: missing, but listed in the manifest; restore it") from error
    if found != entry.sha256:
        raise ShardError(
            f"{path}: sha256 is {found[:12]}…, the manifest says {entry.sha256[:12]}…; the file "
            "was changed or damaged: restore it"
        )
