"""The collectives that a log saw being called, in place of a step that options describe."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ncclcheck.estimate.figures import Given
from ncclcheck.estimate.quantities import size_text
from ncclcheck.estimate.training.workload import Collective, Workload
from ncclcheck.facts.picture import CommunicatorKind, JobPicture, OperationKind

# Collectives of COLL lines: the name of nccl-tests, and whether NCCL counts the elements of one rank of several.
_LOGGED = {
    "AllReduce": ("all_reduce", False),
    "Broadcast": ("broadcast", False),
    "Reduce": ("reduce", False),
    "AllGather": ("all_gather", True),
    "ReduceScatter": ("reduce_scatter", True),
    "AlltoAll": ("all_to_all", True),
    "AllToAll": ("all_to_all", True),
    "Send": ("sendrecv", False),
}


def of_log(picture: JobPicture) -> Workload | None:
    """The calls that the log saw, as those of one rank; None if it saw none.

    A send is the receive of another rank, and both directions run at once: sends are counted alone.
    """
    if not picture.ranks_seen or not picture.ranks_total:
        return None
    timed, left = [], []
    for operation in picture.operations:
        if operation.op == "Recv":
            continue
        one = _logged(operation, picture)
        if one is None:
            left.append(operation.op)
        else:
            timed.append(one)
    if not timed:
        return None
    remarks = [f"the calls are those that the log saw, shared by its {picture.ranks_seen} ranks"]
    if left:
        remarks.append(f"without {', '.join(sorted(set(left)))}: not known in size or ranks")
    calls = Given("calls", str(sum(one.calls for one in picture.operations)), "COLL lines of the log")
    return Workload(tuple(timed), picture.ranks_total, per_step=False, givens=(calls,), remarks=tuple(remarks))


def _logged(operation: OperationKind, picture: JobPicture) -> Collective | None:
    ranks, nbytes = operation.nranks, operation.nbytes
    if operation.op not in _LOGGED or nbytes is None or not ranks or ranks < 2:
        return None
    op, of_one_rank = _LOGGED[operation.op]
    size = nbytes * ranks if of_one_rank else nbytes
    near = _on_node(ranks, picture.communicators)
    if op == "sendrecv":  # between two ranks of which the lines name one: on two nodes, if the communicator has two
        ranks, near = 2, 2 if near == ranks else 1
    return Collective(
        name=f"{op} of {size_text(size)}",
        op=op,
        nbytes=float(size),
        calls=operation.calls / picture.ranks_seen,
        ranks=ranks,
        on_node=near,
        volume=f"{operation.calls} calls / {picture.ranks_seen} ranks seen",
    )


def _on_node(ranks: int, communicators: Sequence[CommunicatorKind]) -> int | None:
    """Ranks of such a communicator on a node; the fewest, where communicators of this size lie differently."""
    spreads = {ceil(ranks / one.nnodes) for one in communicators if one.nranks == ranks and one.nnodes}
    return min(spreads) if spreads else None
