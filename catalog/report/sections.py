"""The sections of the report, in their order. A stage that has something to show adds its own."""

from catalog.report import (
    corpus,
    mixing,
    packing,
    removal,
    sharing,
    similarity,
    synthesis,
    training,
)
from catalog.report.figure import Section

SECTIONS: tuple[Section, ...] = (
    Section(id="summary", title="Summary", figures=corpus.summary, stages=()),
    Section(id="sources", title="Sources and domains", figures=corpus.sources),
    Section(id="lengths", title="Lengths", figures=corpus.lengths),
    Section(id="losses", title="What was lost, and why", figures=corpus.losses),
    Section(
        id="contamination",
        title="Evaluation items in the corpus",
        figures=removal.contamination,
        stages=("decontaminate",),
    ),
    Section(
        id="duplicates",
        title="Duplicates",
        figures=removal.duplicates,
        stages=("dedupe.exact", "dedupe.near"),
    ),
    Section(
        id="sentences",
        title="Repeated sentences",
        figures=removal.sentences,
        stages=("dedupe.sentence",),
    ),
    Section(
        id="synthesis",
        title="Conversations from graphs",
        figures=synthesis.conversations,
        stages=("synthesize",),
        views=("conversations", "quotas"),
    ),
    Section(id="utility", title="Use for the target", figures=mixing.utility, stages=("utility",)),
    Section(id="mixture", title="Mixture", figures=mixing.mixture, stages=("mixture",)),
    Section(id="rows", title="Packed rows", figures=packing.rows, stages=("balance",)),
    Section(
        id="costs", title="Work of ranks and steps", figures=packing.costs, stages=("balance",)
    ),
    Section(
        id="order",
        title="Steps beside a random shuffle",
        figures=packing.order,
        stages=("balance",),
    ),
    Section(
        id="similarity",
        title="Documents that belong together",
        figures=similarity.similarity,
        stages=("balance",),
        views=("vectors",),
        only_with_rows=True,
    ),
    Section(
        id="sharing",
        title="Documents that ranks share",
        figures=sharing.zones,
        stages=("balance",),
        views=("zones", "transfers"),
        only_with_rows=True,
    ),
    Section(
        id="training",
        title="Training",
        figures=training.training,
        stages=("balance",),
        only_with_rows=True,
    ),
    Section(id="samples", title="Texts", figures=corpus.samples),
)
"""``drystone report`` shows those that concern the run."""
