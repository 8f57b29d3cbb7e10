"""A run with aligned pieces: proved, and laid out by the reader."""

import numpy as np
import pyarrow.parquet as pq
from small_runs import recipe_of

from packing.reader import PackedReader
from packing.verify import verify
from pipelines.run import run


def test_aligned_run(corpus, tmp_path):
    """Rows hold their aligned pieces, verification says so, padding is told apart."""
    pack = {"seq_len": 512, "align": 16, "strategy": "online"}
    summary = run(recipe_of(corpus, tmp_path, pack=pack))
    findings = verify(summary.dataset)
    assert findings.ok, findings.failed
    whole = alignment = 0
    for path in sorted((tmp_path / "artifacts").glob("balance-*/rows-*.parquet")):
        for row in pq.read_table(path).to_pylist():
            lengths = np.diff(row["cu_seqlens"])
            filled = lengths + -lengths % 16
            assert filled.sum() <= 512
            whole += 512
            alignment += int((filled - lengths).sum())
    assert summary.padding_alignment == alignment / whole > 0
    assert summary.padding == 1 - summary.tokens / whole
    assert abs(summary.padding_alignment + summary.padding_fill - summary.padding) < 1e-12
    with PackedReader(summary.dataset) as reader:
        for batch in reader.micro_batches(0, 0, 2):
            assert batch.align == 16
            padded = batch.padded()
            assert padded.input_ids.shape == (batch.n_rows, 512)
            assert (padded.cu_seqlens_padded % 16 == 0).all()
