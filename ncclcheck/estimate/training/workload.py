"""The collectives of one training step, from the parallelism plan.

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

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, sqrt

from ncclcheck.estimate.figures import ASSUMED, Given
from ncclcheck.estimate.hardware import Training
from ncclcheck.estimate.options import DTYPE_BYTES, EstimateOptions
from ncclcheck.estimate.quantities import count_text
from ncclcheck.estimate.training.parallelism import Place, Plan


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
        self.given("parameters", count_text(self.params), "--params")
        self.bytes = DTYPE_BYTES[options.dtype]
        self.given("bytes per parameter and gradient", f"{self.bytes:g}", "--dtype")
        self.active = options.active_params or self.params
        if options.active_params:
            self.given("active parameters", count_text(self.active), "--active-params")
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
        text = f"{count_text(params)} parameters of a rank x {self.bytes:g} B"
        stage = self.options.zero or 0
        if stage == 0:
            yield Collective(f"all_reduce of DDP{of}", "all_reduce", whole, 1, ranks, stride, kind="ddp", volume=text)
        elif stage < 3:
            for op in ("reduce_scatter", "all_gather"):
                yield Collective(f"{op} of ZeRO-{stage}{of}", op, whole, 1, ranks, stride, kind="ddp", volume=text)
        else:
            layers = max(1.0, self.layers / self.plan.pp)
            text += f", in {layers:g} layers"
            if self.micro_batches > 1:
                text += f", for each of {self.micro_batches} micro-batches"
            for op, times in (("all_gather", 2), ("reduce_scatter", 1)):
                calls = times * layers * self.micro_batches
                name = f"{op} of FSDP{of}"
                yield Collective(name, op, whole / layers, calls, ranks, stride, kind="fsdp", volume=text)

    def of_activations(self, tokens: float) -> Iterator[Collective]:
        """What travels with the tokens. tokens: of a step, per GPU."""
        plan, width = self.plan, self.training.activation_bytes
        batch = tokens * plan.tp * plan.pp / self.micro_batches  # of a micro-batch, in one replica
        layers = self.layers / plan.pp * self.micro_batches
        size = batch * self.hidden * width
        text = f"{batch:g} tokens x {self.hidden:g} x {width:g} B"
        yield Collective("all_reduce of TP", "all_reduce", size, 4 * layers, plan.tp, 1, kind="tp", volume=text)
        if plan.pp > 1:
            calls, apart, part = 2 * self.micro_batches, plan.tp * plan.dp, f"{text} / {plan.tp}"
            yield Collective(
                "send and receive of PP", "sendrecv", size / plan.tp, calls, 2, apart, kind="pp", volume=part
            )
        if plan.ep > 1:
            experts = self.options.experts_per_token or self.training.experts_per_token
            self.given("experts per token", str(experts), "--top-k" if self.options.experts_per_token else ASSUMED)
            size, part = size * experts / plan.tp, f"{text} x {experts} / {plan.tp}"
            yield Collective(
                "all_to_all of EP", "all_to_all", size, 4 * layers, plan.ep, plan.tp, kind="ep", volume=part
            )
