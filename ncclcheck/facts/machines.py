"""Which machine is a process on?

The host of a prefix is `gethostname()` cut at the first dot, so two machines can print the same one; a launcher's label
or the addresses tell them apart. Machines are never joined by likeness of their names.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.facts.schema import table

# Interfaces that have the same address on every machine, or none of its own.
_EVERYWHERE = ["lo", "docker0", "virbr0"]


def machine_of(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """`proc` and `machine` (null: the records have no host) for every process."""
    processes = table(tables, "processes").select("proc", "host", "label_host")
    base = pl.coalesce("label_host", pl.when(pl.col("host") == "").then(pl.lit("(no name)")).otherwise("host"))
    processes = processes.with_columns(base=_plain_names(processes, base))
    addressed = processes.join(_address(table(tables, "interfaces")), on="proc", how="left", maintain_order="left")
    several = (
        addressed.drop_nulls(["base", "name", "address"])
        .group_by("base", "name")
        .agg(pl.col("address").n_unique().alias("addresses"))
        .filter(pl.col("addresses") > 1)
        .get_column("base")
        .unique()
    )
    split = pl.col("base").is_in(several.implode()) & pl.col("address").is_not_null()
    machine = pl.when(split).then(pl.concat_str("base", pl.lit("@"), "address")).otherwise("base")
    return addressed.select("proc", machine.alias("machine"))


def _plain_names(processes: pl.DataFrame, base: pl.Expr) -> pl.Series:
    """Where label and prefix name the same machines one to one, the prefix's name is the better one to print."""
    named = processes.select(base.alias("base"), "host", "label_host")
    pairs = named.drop_nulls().unique()
    one_to_one = pairs.filter(pl.len().over("label_host") == 1, pl.len().over("host") == 1, pl.col("host") != "")
    return named.get_column("base").replace(one_to_one.get_column("label_host"), one_to_one.get_column("host"))


def _address(interfaces: pl.DataFrame) -> pl.DataFrame:
    """Per process the interface that tells its machine: bootstrap before sockets before out-of-band."""
    order = pl.col("use").replace_strict({"bootstrap": 0, "socket": 1, "oob": 2}, return_dtype=pl.Int8, default=3)
    usable = (
        ~pl.col("name").is_in(_EVERYWHERE)
        & (pl.col("address") != "")
        & ~pl.col("address").str.starts_with("127.")
        & ~pl.col("address").str.contains("[xX*]")  # blanked out by whoever posted the log
    )
    return (
        interfaces.filter(usable)
        .sort("proc", order, "index")
        .group_by("proc", maintain_order=True)
        .agg(pl.col("name").first(), pl.col("address").first())
    )
