"""Another plan over rows that already stand in shards: other ranks, another batch, the rest of a run."""

import numpy as np
import numpy.typing as npt

from packing.format import ShardError
from packing.slots import BalanceSettings, StepPlan, deal_rows


def replan(
    step: npt.NDArray[np.int32],
    cost: npt.NDArray[np.float64],
    settings: BalanceSettings,
    *,
    seed: int = 0,
    from_step: int = 0,
    domain: npt.NDArray[np.int16] | None = None,
    cp: npt.NDArray[np.int16] | None = None,
) -> StepPlan:
    """Deal rows anew, inside blocks of ``horizon`` steps in the order in which they are stored.

    Rows stand in the shards in the order of the first plan, which is shuffled, so a block is a
    fair sample and reading it stays nearly sequential. The shards are not touched.

    Args:
        step: step of each row in the present plan, by ``row_id``, int32[r]; -1 for rows that an
            earlier replan left out.
        cost: cost of each row, by ``row_id``, float64[r].
        settings: ranks, batch and horizon of the new plan.
        seed: any integer.
        from_step: first step of the present plan that is not trained yet; the rows of earlier
            steps are left out, and the new plan's steps are numbered from here.
        domain: domain of each row, by ``row_id``, int16[r], or None.
        cp: ranks that share each row, by ``row_id``, int16[r], or None.

    Returns:
        The new plan; ``order`` holds row_ids.

    Raises:
        ShardError: no row is left, the arrays do not match, or rows are shared by a number of ranks
            that does not divide ``dp``.
    """
    if step.shape != cost.shape:
        raise ShardError(f"{len(step)} steps but {len(cost)} costs; pass one of each a row")
    rows = np.flatnonzero(step >= max(0, from_step))
    if not len(rows):
        last = int(step.max()) if len(step) else -1
        raise ShardError(
            f"no row is left from step {from_step} on: the plan's last step is {last}; "
            f"choose from_step between 0 and {max(0, last)}"
        )
    first = max(0, from_step)
    return deal_rows(rows, cost, settings, seed, domain=domain, cp=cp, first_step=first)
