"""The collectives of one training step, from the parallelism plan; or those that the log saw.

Volumes (P parameters, b bytes each, L layers, h hidden size, T tokens of a micro-batch in one replica, m micro-batches;
d, t, p, e: sizes of the data, tensor, pipeline and expert groups). Each rank holds P / (t p) parameters.
- data parallel: all_reduce of P b / (t p); ZeRO 1 and 2 the same bytes as reduce_scatter and all_gather
- ZeRO 3 (FSDP): two all_gathers and a reduce_scatter of them, a layer at a time, for each micro-batch
- tensor parallel: four all_reduces of T h b per layer and micro-batch, two forward and two backward
- pipeline parallel: T h b / t to the next stage and back, per micro-batch
- expert parallel: four all_to_alls of T k h b / t per layer and micro-batch; k experts per token
Source: Megatron-LM, PyTorch FSDP and ZeRO, as their papers and code count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

from ncclcheck.estimate.figures import ASSUMED, Given
from ncclcheck.estimate.hardware import Training
from ncclcheck.estimate.options import DTYPE_BYTES, EstimateOptions
from ncclcheck.estimate.quantities import size_text
from ncclcheck.estimate.training.parallelism import Place, Plan
from ncclcheck.facts.picture import CommunicatorKind, JobPicture, OperationKind


@dataclass(frozen=True, slots=True)
class Collective:
    """Calls that one rank makes in a step, or made as far as the log goes.

    name: for people ("all_gather of FSDP"). op: as nccl-tests names it; nbytes: of a call as it counts them. calls: of
    one rank. ranks: of the group; stride: from one to the next of them; on_node: how many lie on a node, where that is
    known otherwise. kind: by which it hides behind compute (a row of [overlap]; "" unknown). volume: how nbytes and
    calls came about.
    """

    name: str
    op: str
    nbytes: float
    calls: float
    ranks: int
    stride: int = 1
    on_node: int | None = None
    kind: str = ""
    volume: str = ""

    def place(self, per_node: int) -> Place:
        """On nodes of so many GPUs of the job."""
        near = self.on_node or max(1, per_node // self.stride)
        near = min(near, per_node, self.ranks)
        if near == self.ranks:
            return Place(1, near, 1)
        return Place(ceil(self.ranks / near), near, max(1, per_node // near))


@dataclass(frozen=True, slots=True)
class Workload:
    """collectives: of one rank. ranks: of the whole job. per_step: of one step, or of what the log saw.

    bubble: idle share that a pipeline adds to the compute time. flops: of one rank and step, None: unknown.
    tokens: of a step, over all ranks.
    """

    collectives: tuple[Collective, ...]
    ranks: int
    per_step: bool = True
    bubble: float = 0.0
    flops: float | None = None
    tokens: float | None = None
    givens: tuple[Given, ...] = ()
    remarks: tuple[str, ...] = field(default=())


def of_plan(options: EstimateOptions, training: Training, ranks: int | None) -> Workload:
    """The step that the options describe. ranks: of the job as the input shows it; None where only the plan does.

    Raises ValueError if the options have no parameters.
    """
    return _Step(options, training, ranks).workload()


class _Step:
    def __init__(self, options: EstimateOptions, training: Training, ranks: int | None) -> None:
        if options.params is None:
            raise ValueError("a step needs the number of parameters")
        self.options, self.training, self.params = options, training, options.params
        self.givens: list[Given] = []
        self.remarks: list[str] = []
        self.plan = options.plan or Plan(dp=ranks or 1)
        if ranks is not None and self.plan.ranks != ranks:
            self.remarks.append(
                f"{self.plan} are {self.plan.ranks} ranks and the input shows {ranks}: the step is that of"
                f" {self.plan.ranks} ranks on such nodes"
            )
        self.given("plan", str(self.plan), "--parallel" if options.plan else "ranks of the job, all data parallel")
        self.given("parameters", _count(self.params), "--params")
        self.bytes = DTYPE_BYTES[options.dtype]
        self.given("bytes per parameter and gradient", f"{self.bytes:g}", "--dtype")
        self.active = options.active_params or self.params
        if options.active_params:
            self.given("active parameters", _count(self.active), "--active-params")
        self.layers, self.hidden = self.shape()
        self.micro_batches = self.batches()

    def given(self, name: str, value: str, origin: str) -> None:
        self.givens.append(Given(name, value, origin))

    def shape(self) -> tuple[float, float]:
        """Layers and hidden size: as given, else those of a transformer of this size."""
        layers, hidden = self.options.layers, self.options.hidden
        per_layer, ratio = self.training.params_per_layer, self.training.hidden_per_layer
        if layers and not hidden:
            found = float(layers), sqrt(self.active / per_layer / layers)
        elif hidden and not layers:
            found = self.active / per_layer / hidden**2, float(hidden)
        elif layers and hidden:
            found = float(layers), float(hidden)
        else:
            guess = (self.active / per_layer / ratio**2) ** (1 / 3)
            found = guess, ratio * guess
        assumed = f"{ASSUMED}: parameters = {per_layer:g} x layers x hidden^2, hidden = {ratio:g} x layers"
        found = max(1.0, round(found[0])), max(1.0, round(found[1]))
        self.given("layers", f"{found[0]:.0f}", "--layers" if layers else assumed)
        self.given("hidden size", f"{found[1]:.0f}", "--hidden" if hidden else assumed)
        return found

    def batches(self) -> int:
        if self.options.micro_batches:
            self.given("micro-batches", str(self.options.micro_batches), "--micro-batches")
            return self.options.micro_batches
        stages = self.plan.pp
        count = 1 if stages == 1 else stages * self.training.micro_batches_per_stage
        self.given("micro-batches", str(count), ASSUMED)
        return count

    def workload(self) -> Workload:
        plan, tokens = self.plan, self.options.tokens_per_gpu
        collectives = list(self.data_parallel())
        if tokens is not None:
            self.given("tokens per GPU", f"{tokens:g}", "--tokens-per-gpu")
            collectives += self.of_activations(tokens)
        elif plan.tp > 1 or plan.pp > 1 or plan.ep > 1:
            names = " and ".join(name for name, size in (("TP", plan.tp), ("PP", plan.pp), ("EP", plan.ep)) if size > 1)
            self.remarks.append(f"the communication of {names} is left out: it needs --tokens-per-gpu")
        flops = None if tokens is None else self.training.flops_per_token * self.active * tokens
        return Workload(
            collectives=tuple(one for one in collectives if one.ranks > 1),
            ranks=plan.ranks,
            bubble=(plan.pp - 1) / self.micro_batches,
            flops=flops,
            tokens=None if tokens is None else tokens * plan.ranks,
            givens=tuple(self.givens),
            remarks=tuple(self.remarks),
        )

    def data_parallel(self) -> Iterator[Collective]:
        """What keeps the replicas alike. Experts have fewer replicas than the rest."""
        plan = self.plan
        common = self.params
        if plan.ep > 1:
            common = self.active
            experts = self.params - self.active
            yield from self.replicas(
                experts / (plan.tp * plan.pp * plan.ep), plan.dp // plan.ep, plan.tp * plan.ep, " for experts"
            )
        yield from self.replicas(common / (plan.tp * plan.pp), plan.dp, plan.tp, "")

    def replicas(self, params: float, ranks: int, stride: int, of: str) -> Iterator[Collective]:
        whole = params * self.bytes
        if whole <= 0:
            return
        text = f"{_count(params)} parameters of a rank x {self.bytes:g} B"
        stage = self.options.zero or 0
        if stage < 3:
            if stage == 0:
                yield Collective(f"all_reduce of DDP{of}", "all_reduce", whole, 1, ranks, stride, None, "ddp", text)
                return
            for op in ("reduce_scatter", "all_gather"):
                yield Collective(f"{op} of ZeRO-{stage}{of}", op, whole, 1, ranks, stride, None, "ddp", text)
            return
        layers = max(1.0, self.layers / self.plan.pp)
        rounds = layers * self.micro_batches
        size = whole / layers
        text += f", in {layers:g} layers"
        if self.micro_batches > 1:
            text += f", for each of {self.micro_batches} micro-batches"
        yield Collective(f"all_gather of FSDP{of}", "all_gather", size, 2 * rounds, ranks, stride, None, "fsdp", text)
        yield Collective(
            f"reduce_scatter of FSDP{of}", "reduce_scatter", size, rounds, ranks, stride, None, "fsdp", text
        )

    def of_activations(self, tokens: float) -> Iterator[Collective]:
        """What travels with the tokens. tokens: of a step, per GPU."""
        plan, width = self.plan, self.training.activation_bytes
        batch = tokens * plan.tp * plan.pp / self.micro_batches  # of a micro-batch, in one replica
        layers = self.layers / plan.pp * self.micro_batches
        size = batch * self.hidden * width
        text = f"{batch:g} tokens x {self.hidden:g} x {width:g} B"
        yield Collective("all_reduce of TP", "all_reduce", size, 4 * layers, plan.tp, 1, None, "tp", text)
        if plan.pp > 1:
            calls, apart, part = 2 * self.micro_batches, plan.tp * plan.dp, f"{text} / {plan.tp}"
            yield Collective("send and receive of PP", "sendrecv", size / plan.tp, calls, 2, apart, None, "pp", part)
        if plan.ep > 1:
            experts = self.options.experts_per_token or self.training.experts_per_token
            self.given("experts per token", str(experts), "--top-k" if self.options.experts_per_token else ASSUMED)
            size, part = size * experts / plan.tp, f"{text} x {experts} / {plan.tp}"
            yield Collective("all_to_all of EP", "all_to_all", size, 4 * layers, plan.ep, plan.tp, None, "ep", part)


def _count(params: float) -> str:
    return f"{params / 1e9:.3g}B" if params >= 1e9 else f"{params / 1e6:.3g}M"


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
