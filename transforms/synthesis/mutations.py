"""Records made wrong in one way each: what the gate must refuse, and what a model must not prefer.

Every mutation changes what a model would write (calls, arguments, answers) or what proves it
(results, plan, gold, definitions). A mutation that leaves a record right by chance, such as another
entity with the same answer, is not made where that can be seen; what survives is listed by
``benchmarks/synthesis.py``.
"""

import copy
from collections.abc import Callable

from transforms.synthesis import mutations_calls, mutations_claims
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.record import Record

Mutation = Callable[[Record, Graph, Draw], bool]
"""Changes a record in place; returns whether there was something to change."""


def mutated(record: Record, kind: str, graph: Graph, draw: Draw) -> Record | None:
    """Return a record made wrong in one way; None where it has nothing to be made wrong so.

    Args:
        record: is not changed.
        kind: one of MUTATIONS.
        graph: the record's.
        draw: where choices come from.
    """
    changed = copy.deepcopy(record)
    return changed if MUTATIONS[kind](changed, graph, draw) else None


MUTATIONS: dict[str, Mutation] = {
    "dropped call": mutations_calls.dropped_call,
    "repeated call": mutations_calls.repeated_call,
    "unknown function": mutations_calls.unknown_function,
    "other function": mutations_calls.other_function,
    "missing argument": mutations_calls.missing_argument,
    "extra argument": mutations_calls.extra_argument,
    "argument of another type": mutations_calls.argument_of_another_type,
    "other entity": mutations_calls.other_entity,
    "dropped item": mutations_calls.dropped_item,
    "swapped arguments": mutations_calls.swapped_arguments,
    "altered result": mutations_calls.altered_result,
    "wrong id": mutations_calls.wrong_id,
    "unanswered call": mutations_calls.unanswered_call,
    "premature answer": mutations_calls.premature_answer,
    "unsaid answer": mutations_claims.unsaid_answer,
    "missing gold": mutations_claims.missing_gold,
    "other number": mutations_claims.other_number,
    "other anchor": mutations_claims.other_anchor,
    "needless refusal": mutations_claims.needless_refusal,
    "bad definition": mutations_claims.bad_definition,
    "calm environment": mutations_claims.calm_environment,
    "other style": mutations_claims.other_style,
}
"""Ways to make a record wrong, by name."""
