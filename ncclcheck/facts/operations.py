"""What the job calls, by the lines of COLL."""

from __future__ import annotations

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.picture import ChoiceKind, OperationKind
from ncclcheck.facts.printed import MAX_EVIDENCE
from ncclcheck.facts.question import question
from ncclcheck.facts.traffic import Traffic

# NCCL's numbers of datatypes: name and bytes of an element.
DATATYPES = {
    0: ("int8", 1), 1: ("uint8", 1), 2: ("int32", 4), 3: ("uint32", 4), 4: ("int64", 8), 5: ("uint64", 8),
    6: ("float16", 2), 7: ("float32", 4), 8: ("float64", 8), 9: ("bfloat16", 2), 10: ("float8e4m3", 1),
    11: ("float8e5m2", 1),
}  # fmt: skip

# NCCL's numbers of algorithms and protocols until 2.23; later releases print names.
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")


@question
def operations(facts: Traffic) -> tuple[OperationKind, ...]:
    """By operation, size and ranks; what moves most first."""
    look = ["op", "count", "datatype", "nranks"]
    rows = (
        facts["operations"].drop_nulls(["op", "count"]).group_by(look, maintain_order=True).agg(pl.col("calls").sum())
    )
    found = []
    for op, count, datatype, nranks, calls in rows.iter_rows():
        name, size = DATATYPES.get(datatype, ("", None))
        found.append(OperationKind(op, count, name, None if size is None else count * size, nranks, calls))
    return tuple(sorted(found, key=lambda one: (-(one.nbytes or 0) * one.calls, one.op, one.count)))


@question
def choices(facts: Traffic) -> tuple[ChoiceKind, ...]:
    """Algorithm and protocol by operation and size; what moves most first."""
    look = ["op", "bytes", "algo", "proto", "kernel"]
    rows = facts["choices"].drop_nulls("bytes").group_by(look, maintain_order=True).agg(pl.col("calls").sum())
    found = [
        ChoiceKind(
            op or "", nbytes, kernel or _word(algo, _ALGORITHMS), "" if kernel else _word(proto, _PROTOCOLS), calls
        )
        for op, nbytes, algo, proto, kernel, calls in rows.iter_rows()
    ]
    return tuple(sorted(found, key=lambda one: (-one.nbytes * one.calls, one.op, one.nbytes, one.algorithm)))


def _word(printed: str | None, names: tuple[str, ...]) -> str:
    if printed and printed.isdecimal() and int(printed) < len(names):
        return names[int(printed)]
    return (printed or "").lower()


@question
def first_calls(facts: Traffic) -> tuple[Evidence, ...]:
    """The first call on record of each operation."""
    rows = facts["collectives"].unique("op", keep="first", maintain_order=True).select("source", "line")
    return tuple(facts.evidence(*at) for at in rows.head(MAX_EVIDENCE).iter_rows())
