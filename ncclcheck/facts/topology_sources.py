"""Where NCCL took its topology from: files that were loaded, missing or refused, and files beside the log."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.question import question
from ncclcheck.facts.topo_file import TopoFile, topo_files


@question
def file_loaded(facts: Printed) -> bool:
    """Does a topology file stand behind the job: NCCL says that it loads one, or it is named and nothing complains."""
    if facts.notes("topo_file_loaded"):
        return True
    missing = {failure.fields.get("path") for failure in facts.failures("topo_file_missing")}
    named = [seen for seen in facts.settings("NCCL_TOPO_FILE") if seen.value not in missing]
    return bool(named or facts.notes("net_ofi_topo_file") or facts.notes("net_ofi_platform"))


class Mismatch(NamedTuple):
    """A topology file of the input that the log names, and GPUs of a machine that it does not hold."""

    file: TopoFile
    machine: str
    absent: tuple[str, ...]
    gpus: int
    evidence: tuple[Evidence, ...]


@question
def mismatches(facts: Printed) -> tuple[Mismatch, ...]:
    """Files whose GPUs are at other addresses than the job's. A file counts as the job's by its name."""
    named = {seen.value.rpartition("/")[2] for seen in facts.settings("NCCL_TOPO_FILE")}
    files = [
        file for file in topo_files(facts) if file.complete and file.gpus and file.path.rpartition("/")[2] in named
    ]
    if not files:
        return ()
    known = facts["inits"].filter(pl.col("bus_id").is_not_null()).join(facts.machine_table.drop_nulls(), on="proc")
    found = []
    for (machine,), rows in known.group_by("machine", maintain_order=True):
        at = {bus_id_text(row["bus_id"]): facts.evidence(row["source"], row["line"]) for row in rows.to_dicts()}
        for file in files:
            listed = {gpu.pci.bus_id for gpu in file.gpus}
            absent = tuple(address for address in at if address not in listed)
            if absent:
                lines = (file.gpus[0].pci.line, *(at[address] for address in absent))
                found.append(Mismatch(file, str(machine), absent, len(at), lines[:4]))
    return tuple(found)


def bus_id_text(number: str) -> str:
    """`1a000` as NCCL prints it -> `0000:1a:00.0`."""
    try:
        value = int(number, 16)
    except ValueError:
        return number
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF:x}"
