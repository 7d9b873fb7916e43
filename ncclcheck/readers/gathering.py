"""Fields of many messages at once, from their slots and what their shapes say of them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ncclcheck.readers.grammar import slot_kinds

# Per field the pieces that make it up: the k-th slot, or constant text.
Fields = Mapping[str, tuple[int | str, ...]]


def gather(texts: pl.DataFrame, shapes: Mapping[int, Fields]) -> pl.DataFrame:
    """`_text` and a column per field, all shapes of an event at once. texts: `_text`, `slots` and `shape_id`."""
    names = list(dict.fromkeys(name for fields in shapes.values() for name in fields))
    simple = [name for name in names if all(len(fields.get(name, ())) < 2 for fields in shapes.values())]
    mixed = [name for name in names if name not in simple]
    slots = pl.col("slots")
    if len(shapes) == 1:
        (fields,) = shapes.values()
        columns = [_single(slots, fields[name]).alias(name) for name in simple]
        gathered = texts.with_columns(columns) if columns else texts
    else:
        where: dict[str, list[int | None]] = {}
        constant: dict[str, list[str | None]] = {}
        columns = []
        for name in simple:
            pieces = [fields.get(name, (None,))[0] for fields in shapes.values()]
            where[f"slot of {name}"] = [piece if isinstance(piece, int) else None for piece in pieces]
            constant[f"text of {name}"] = [piece if isinstance(piece, str) else None for piece in pieces]
            sources = []
            if any(piece is not None for piece in where[f"slot of {name}"]):
                sources.append(slots.list.get(pl.col(f"slot of {name}"), null_on_oob=True))
            if any(piece is not None for piece in constant[f"text of {name}"]):
                sources.append(pl.col(f"text of {name}"))
            columns.append(pl.coalesce(sources).alias(name))
        table = pl.DataFrame(
            {"shape_id": list(shapes), **where, **constant},
            schema={"shape_id": pl.Int32, **dict.fromkeys(where, pl.Int32), **dict.fromkeys(constant, pl.String)},
        )
        gathered = texts.join(table, on="shape_id", how="left", maintain_order="left").with_columns(columns)
    for name in mixed:
        gathered = gathered.with_columns(_mixed(texts, name, shapes).alias(name))
    return gathered.select("_text", *names)


def fits(texts: pl.DataFrame) -> pl.Series | None:
    """Whether each message's slots are of the kinds that its fields take: a shape shows a slot, not which one. None:
    nothing to check."""
    kinds = slot_kinds()
    checks = [pl.col(name).str.contains(f"^(?:{kinds[name]})$") for name in texts.columns if name in kinds]
    return texts.select(pl.all_horizontal(check.fill_null(True) for check in checks)).to_series() if checks else None


def _single(slots: pl.Expr, pieces: tuple[int | str, ...]) -> pl.Expr:
    (piece,) = pieces
    return slots.list.get(piece, null_on_oob=True) if isinstance(piece, int) else pl.lit(piece)


def _mixed(texts: pl.DataFrame, name: str, shapes: Mapping[int, Fields]) -> pl.Series:
    """A field of constants and slots mixed: explode its pieces, look each up, join them again."""
    order = [
        (shape_id, position, piece if isinstance(piece, int) else None, piece if isinstance(piece, str) else None)
        for shape_id, fields in shapes.items()
        for position, piece in enumerate(fields.get(name, ()))
    ]
    table = pl.DataFrame(
        order,
        schema={"shape_id": pl.Int32, "position": pl.Int32, "slot": pl.Int32, "constant": pl.String},
        orient="row",
    )
    return (
        texts.lazy()
        .select("slots", "shape_id")
        .with_row_index("row")
        .join(table.lazy(), on="shape_id", how="left")
        .with_columns(piece=pl.coalesce(pl.col("slots").list.get(pl.col("slot"), null_on_oob=True), "constant"))
        .sort("row", "position")
        .group_by("row", maintain_order=True)
        .agg(pl.col("piece").str.join(""), (pl.col("piece").is_not_null().any()).alias("present"))
        .select(pl.when("present").then("piece").alias("piece"))
        .collect()
        .get_column("piece")
    )
