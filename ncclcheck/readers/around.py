"""Rows of what stands around NCCL's records: last words of processes, and what launchers say of their end."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ncclcheck.facts.schema import conform

# Events of `grammars/around.lark` that tell of an end.
EVENTS = (
    "python_traceback", "python_aside", "python_error", "python_fatal", "cpp_terminate", "shell_segv",
    "shell_bus_error", "shell_abort", "shell_killed", "mpi_signal", "named_signal", "lightning_ended", "jsrun_noticed",
    "lsf_exit", "lsf_limit", "oom_killed", "elastic_failed", "elastic_root",
    "elastic_host", "elastic_rank", "elastic_exit", "elastic_closing", "elastic_signalled", "srun_error",
    "slurm_cancelled", "slurm_oom", "mpi_noticed", "mpi_process", "mpi_exit", "mpi_abort", "hydra_process",
    "hydra_exit", "deepspeed_exit", "horovod_exit", "spawn_ended", "ray_worker_died", "kube_exit", "kube_oom",
    "test_failed", "watchdog_timeout", "watchdog_status", "watchdog_signal", "watchdog_cuda", "watchdog_abort",
    "watchdog_stuck",
)  # fmt: skip

# PyTorch puts this before what nobody caught.
_RANK = r"(?:\[|\[PG [^\]]* )[Rr]ank ?(\d{1,7})\][: ]*$"
# The watchdog names it with the group: `[PG 0 (default_pg) Rank 12] Process group watchdog ...`, `[Rank 3] NCCL ...`.
_WATCHED = r"[Rr]ank (\d{1,7})\] (?:Process group|NCCL) $"
_STUCK = r"[Rr]ank (\d{1,7})\] (?:ProcessGroupNCCL's )?$"
_RANKS = {"watchdog_cuda": _WATCHED, "watchdog_stuck": _STUCK}
# PyTorch's C++ log since 2.2: the rank of the job. What the watchdog names is the rank in its group.
_WORLD_RANK = r"\[rank(\d{1,7})\]:\s*\[[EWI]"
# `[PG ID 3 PG GUID 17(tp) Rank 0]` since 2.5, `[PG 0 (default_pg) Rank 6]` and `[PG 3 Rank 4]` before. The GUID is the
# same on all ranks, a number of the process's own only where it is 0.
_GUID = r"\[PG ID \d+ PG GUID ([^\s(\]]{1,64})"
_ORDINAL = r"\[PG (\d{1,7}) (?:\([^)]*\) )?Rank"


def around_rows(typed: Callable[[str], pl.DataFrame | None], heads: pl.Series) -> pl.DataFrame | None:
    """typed: rows of an event. heads: what stood before a record, by `_head`."""
    parts = []
    for event in EVENTS:
        frame = typed(event)
        if frame is None:
            continue
        if event == "python_error":  # NCCL's word for its result ends like a name of Python's: ncclSystemError
            before = heads.gather(frame.get_column("_head"))
            frame = frame.filter(~before.str.ends_with("nccl"))
        columns = frame.columns
        names = [name for name in columns if name.startswith("exc_")]
        before = heads.gather(frame.get_column("_head"))
        label = before.str.extract(_RANKS.get(event, _RANK)).cast(pl.Int64, strict=False)
        rank = pl.coalesce(*(name for name in ("rank", "process") if name in columns), label)
        words = [name for name in ("signal_name", "limit_name") if name in columns]
        hosts = [name for name in ("hosts", "node_name") if name in columns]
        parts.append(
            frame.with_columns(
                event=pl.lit(event), time="_time", rank=rank, rank_label=label.is_not_null(),
                code=pl.col("exitcode") if "exitcode" in columns else None,
                host=pl.coalesce(hosts) if hosts else None,
                exception=pl.coalesce(names) if names else None,
                word=pl.coalesce(words) if words else None,
                **(_watched(before) if event.startswith("watchdog") else {}),
            )
        )  # fmt: skip
    if not parts:
        return None
    return pl.concat([conform("around", part) for part in parts]).sort("source", "line", maintain_order=True)


def _watched(before: pl.Series) -> dict[str, pl.Series]:
    """Of whom a line of the watchdog speaks, by what stands before it."""
    guid, ordinal = before.str.extract(_GUID), before.str.extract(_ORDINAL)
    return {
        "world_rank": before.str.extract(_WORLD_RANK).cast(pl.Int64, strict=False),
        "group": guid.fill_null(ordinal),
        "group_sure": guid.is_not_null() | (ordinal == "0"),
    }
