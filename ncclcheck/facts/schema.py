"""The fact tables: names, columns and types.

Every row says where it came from (`source`: index of the input, `line`). `proc` numbers a process of the whole reading.
Tables of two readings of different files join by concatenation, once `source` and `proc` are shifted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import polars as pl

_WHERE = {"proc": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32}
_THREAD = {**_WHERE, "tid": pl.UInt32}

TABLES: dict[str, dict[str, pl.DataType | type[pl.DataType]]] = {
    # who printed: a process by input, launcher label, host of the prefix and pid; release as 2.18.3 -> 21803, as a line
    # names it; release_low, release_high: the same, or what the forms of its input's lines leave (null: open)
    "processes": {
        "proc": pl.UInt32, "source": pl.UInt32, "task": pl.String, "label_host": pl.String, "host": pl.String,
        "pid": pl.UInt32, "release": pl.Int32, "release_low": pl.Int32, "release_high": pl.Int32,
    },
    # records by level word: INFO, WARN, TRACE, ABORT, CALL, VERSION (bare version lines)
    "levels": {"source": pl.UInt32, "level": pl.String, "records": pl.Int64},
    # lines of an input, its NCCL records, and those of unknown form
    "readings": {"source": pl.UInt32, "lines": pl.Int64, "records": pl.Int64, "unrecognised": pl.Int64},
    # lines that are not as their writers wrote them: joined (several records, each whole), mended (halves of a record
    # put together), torn (part of a record lost to another writer), cut (a record ends too early); and the first lines
    # of unknown form
    "damage": {"source": pl.UInt32, "line": pl.UInt32, "kind": pl.String},
    "versions": {**_WHERE, "version": pl.String, "cuda": pl.String, "hip": pl.Boolean},
    # variables; origin: log (NCCL says that it is in force), script (somebody wrote it: `proc` is null) or live
    "settings": {**_WHERE, "name": pl.String, "value": pl.String, "origin": pl.String},
    # use: bootstrap, socket or oob
    "interfaces": {**_WHERE, "use": pl.String, "index": pl.Int64, "name": pl.String, "address": pl.String},
    # net devices as a process lists them; member: a port of a merged device
    "nics": {
        **_WHERE, "index": pl.Int64, "name": pl.String, "port": pl.Int64, "link": pl.String, "rail": pl.Int64,
        "gbit": pl.Float64, "pci": pl.String,
    },
    "networks": {**_THREAD, "network": pl.String},
    # one-line facts: kind and value
    "notes": {**_WHERE, "kind": pl.String, "value": pl.String},
    # phase: START, COMPLETE, NODES (nodes and local ranks), RANK (releases 2.2 and 2.3)
    "inits": {
        **_THREAD, "phase": pl.String, "comm": pl.String, "rank": pl.Int64, "nranks": pl.Int64, "cuda_dev": pl.Int64,
        "nvml_dev": pl.Int64, "bus_id": pl.String, "comm_id": pl.String, "parent": pl.String, "split": pl.Int64,
        "color": pl.Int64, "nnodes": pl.Int64, "local_ranks": pl.Int64, "mnnvl": pl.Int64,
    },
    # ends of communicators. kind: Destroy, Abort or Revoke; phase: START or COMPLETE; both null before 2.6
    "ends": {**_THREAD, "comm": pl.String, "rank": pl.Int64, "kind": pl.String, "phase": pl.String},
    # what init took, in seconds. kind: init (all of it, by rank) or bootstrap (its rendezvous, on the same thread)
    "timings": {
        **_THREAD, "kind": pl.String, "rank": pl.Int64, "nranks": pl.Int64, "total": pl.Float64, "kernels": pl.Float64,
        "bootstrap": pl.Float64, "connections": pl.Float64, "delay": pl.Float64,
    },
    # operations as the program enqueues them (COLL); root is the peer of Send and Recv. Of a log with millions of them
    # the last of each rank and communicator
    "collectives": {
        **_THREAD, "op": pl.String, "op_count": pl.Int64, "count": pl.Int64, "datatype": pl.Int64, "redop": pl.Int64,
        "root": pl.Int64, "comm": pl.String, "nranks": pl.Int64,
    },
    # how often ranks call each; count: elements, as the program passes it
    "operations": {
        "source": pl.UInt32, "op": pl.String, "count": pl.Int64, "datatype": pl.Int64, "nranks": pl.Int64,
        "calls": pl.Int64,
    },
    # what NCCL's tuner chose for operations of a size (TUNING): op is null in releases that do not print it, algo and
    # proto are NCCL's numbers or names, kernel that of symmetric memory
    "choices": {
        "source": pl.UInt32, "line": pl.UInt32, "op": pl.String, "bytes": pl.Int64, "algo": pl.String,
        "proto": pl.String, "kernel": pl.String, "calls": pl.Int64,
    },
    # edges that a thread prints alike between two steps of its process's communicators (start, end of init, connected):
    # line is the first of `lines`, one per channel; look: equal where all columns behind `lines` are. src_dev, dst_dev:
    # what the brackets hold, as text (device index or bus id)
    "edges": {
        **_THREAD, "look": pl.UInt32, "channels": pl.List(pl.Int32), "lines": pl.List(pl.UInt32), "conn": pl.Int64,
        "src": pl.Int64, "dst": pl.Int64, "src_dev": pl.String, "dst_dev": pl.String, "direction": pl.String,
        "transport": pl.String, "method": pl.String, "network": pl.String, "net_dev": pl.Int64, "gdr": pl.Boolean,
        "proxy_rank": pl.Int64, "read": pl.Boolean,
    },
    "rings": {**_THREAD, "channel": pl.Int64, "nchannels": pl.Int64, "ranks": pl.List(pl.Int64)},
    "connected": {**_THREAD, "what": pl.String, "gdr": pl.Int64},
    # coll: channels for collectives after all limits; collnet: those of CollNet (2.20.3+)
    "channels": {**_THREAD, "coll": pl.Int64, "collnet": pl.Int64, "nvls": pl.Int64},
    "graphs": {
        **_THREAD, "pattern": pl.Int64, "cross_nic": pl.Int64, "nchannels": pl.Int64, "bw_intra": pl.Float64,
        "bw_inter": pl.Float64, "type_intra": pl.String, "type_inter": pl.String,
    },
    # kind: hca (per device) or distance (per GPU and device)
    "gdr": {
        **_WHERE, "kind": pl.String, "hca": pl.String, "gpu": pl.String, "enabled": pl.Boolean, "distance": pl.Int64,
        "limit": pl.Int64, "reason": pl.String,
    },
    # NVLink domains over machines: what the driver says of a GPU (state 3: ready; cluster: UUID, null where it is
    # zero), and what NCCL makes of it (size: ranks of the clique, domain: ranks of the same UUID)
    "fabric": {**_WHERE, "cluster": pl.String, "clique": pl.String, "state": pl.Int64, "health": pl.Int64},
    "cliques": {**_WHERE, "enabled": pl.Int64, "clique": pl.String, "size": pl.Int64, "domain": pl.Int64},
    # NCCL's topology dump, one node per row, in the order of printing within (proc, tid)
    "topology": {
        **_THREAD, "depth": pl.Int64, "link": pl.String, "bw": pl.Float64, "node": pl.String, "id": pl.String,
        "net_gbps": pl.Float64, "arch": pl.Int64, "vendor": pl.Int64,
    },
    # GRAPH path lines: path type between two nodes of a machine
    "paths": {**_THREAD, "a": pl.String, "b": pl.String, "type": pl.String, "bw": pl.Float64},
    # warnings and known fatal lines, by category (the event's name); which columns are filled depends on it
    "failures": {
        **_WHERE, "category": pl.String, "level": pl.String, "call": pl.String, "errno_text": pl.String,
        "error": pl.String, "peer": pl.String, "path": pl.String, "rank_a": pl.Int64, "rank_b": pl.Int64,
        "bus_id": pl.String, "code": pl.Int64, "text": pl.String, "src_file": pl.String, "vendor_err": pl.Int64,
        "version_a": pl.Int64, "version_b": pl.Int64, "size_a": pl.Int64, "size_b": pl.Int64,
    },
    # what adapters say of themselves ("port error", "LID change"); hca, port: from 2.20.3 on
    "port_events": {**_WHERE, "hca": pl.String, "port": pl.Int64, "event": pl.String, "fatal": pl.Boolean},
    # failed calls of libibverbs, and requests that completed with an error (call "completion")
    "verbs_failures": {
        **_WHERE, "call": pl.String, "errno": pl.Int64, "errno_text": pl.String, "status": pl.Int64, "hca": pl.String,
        "next_state": pl.String, "gid_index": pl.Int64, "local_gid": pl.String, "remote_gid": pl.String,
    },
    # lines around NCCL's records that tell of the end of a process, by event; which columns are filled depends on it.
    # rank_label: PyTorch names the rank before the line, as it does with what nobody caught. Of its watchdog, rank is
    # that in the process group, world_rank that of the job; group_sure: the group's name is the same on all ranks
    "around": {
        **_WHERE, "event": pl.String, "time": pl.String, "exception": pl.String, "code": pl.Int64, "signal": pl.Int64,
        "rank": pl.Int64, "rank_label": pl.Boolean, "pid": pl.Int64, "host": pl.String, "tasks": pl.String,
        "text": pl.String, "word": pl.String, "world_rank": pl.Int64, "group": pl.String, "group_sure": pl.Boolean,
    },
    # all lines of an input. folded: Ray left out lines of other ranks that look alike
    "inputs": {"source": pl.UInt32, "lines": pl.Int64, "folded": pl.Boolean},
    # pairs of GPUs that NCCL says cannot use P2P
    "p2p_pairs": {**_WHERE, "kind": pl.String, "a": pl.Int64, "b": pl.Int64},
    # CPUs of NCCL's threads for a GPU, as printed; text: the GPU's own CPUs and the process's (2.28.3+)
    "affinities": {**_WHERE, "gpu": pl.Int64, "mask": pl.String, "text": pl.String},
    # device names printed by tools and frameworks
    "gpu_names": {
        "source": pl.UInt32, "line": pl.UInt32, "host": pl.String, "pid": pl.Int64, "rank": pl.Int64,
        "device": pl.String, "name": pl.String,
    },
    # rows of nccl-tests, with what the head of their table says. table numbers the tables of the reading; collective:
    # several names joined by "or" where nothing tells which, named: the test names it itself; ranks: by the list of
    # devices or by busbw / algbw; nodes, hosts: by the list. Times in us, bandwidths in GB/s, of the half measured out
    # of place, and of that in place (in_). wrong: null where not checked. refused: why the numbers are not used
    "measurements": {
        "table": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "collective": pl.String, "named": pl.Boolean,
        "size": pl.Int64, "count": pl.Int64, "type": pl.String, "redop": pl.String, "root": pl.Int64,
        "us": pl.Float64, "algbw": pl.Float64, "busbw": pl.Float64, "wrong": pl.Float64,
        "in_us": pl.Float64, "in_algbw": pl.Float64, "in_busbw": pl.Float64, "in_wrong": pl.Float64,
        "refused": pl.String, "ranks": pl.Int64, "nodes": pl.Int64, "hosts": pl.List(pl.String), "gpu": pl.String,
        "threads": pl.Int64, "gpus": pl.Int64, "iters": pl.Int64, "warmup": pl.Int64, "validation": pl.Int64,
        "release": pl.String, "cpu_time": pl.Boolean, "concluded": pl.Boolean, "wrong_values": pl.Int64,
    },
    # what tools tell of parts of a machine, a value per row. output numbers the outputs of the reading, kind is the
    # tool's; host: named by the output or by a label before its lines; thing, name, key: `telemetry_keys`; number: of
    # the text, in the key's unit
    "telemetry": {
        "output": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "kind": pl.String, "host": pl.String,
        "thing": pl.String, "name": pl.String, "key": pl.String, "text": pl.String, "number": pl.Float64,
    },
    # operations of ranks as NCCL Inspector timed them, in the names of nccl-tests; a time includes waiting for
    # ranks that come later. comm: hash, sn: number of the operation in it; size: bytes as nccl-tests counts them,
    # bucket: a range in Inspector's words; us, algbw and busbw: as in `measurements`; timing: by which clock
    "inspected": {
        "output": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "kind": pl.String, "host": pl.String,
        "pid": pl.Int64, "comm": pl.String, "name": pl.String, "rank": pl.Int64, "nranks": pl.Int64, "nodes": pl.Int64,
        "gpu": pl.String, "op": pl.String, "sn": pl.Int64, "size": pl.Int64, "bucket": pl.String, "us": pl.Float64,
        "algbw": pl.Float64, "busbw": pl.Float64, "timing": pl.String, "algo": pl.String, "proto": pl.String,
    },
    # nvidia-smi matrices: kind topo, p2p-read, ...; block numbers the matrices of the reading
    "matrices": {
        "block": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "kind": pl.String, "complete": pl.Boolean,
        "damaged": pl.Boolean, "nvlink_hidden": pl.Boolean,
    },
    "matrix_devices": {
        "block": pl.UInt32, "line": pl.UInt32, "name": pl.String, "kind": pl.String, "rdma_name": pl.String,
        "cpu_affinity": pl.String, "numa_affinity": pl.String,
    },
    "matrix_cells": {
        "block": pl.UInt32, "line": pl.UInt32, "a": pl.String, "b": pl.String, "path": pl.String, "links": pl.Int64,
    },
    # topology and graph files of NCCL: kind topo-xml or graph-xml; file numbers those of the reading
    "topo_files": {
        "file": pl.UInt32, "source": pl.UInt32, "line": pl.UInt32, "kind": pl.String, "complete": pl.Boolean,
        "rccl": pl.Boolean,
    },
    # their elements in order; parent: its node number; whole: its end was read; attributes as NCCL names them
    "topo_nodes": {
        "file": pl.UInt32, "line": pl.UInt32, "node": pl.UInt32, "parent": pl.UInt32, "tag": pl.String,
        "whole": pl.Boolean, "bus_id": pl.String, "pci_class": pl.String, "vendor": pl.String, "device": pl.String,
        "link_speed": pl.String, "link_width": pl.Int64, "dev": pl.Int64, "rank": pl.Int64, "sm": pl.Int64,
        "gdr": pl.Int64, "target": pl.String, "count": pl.Int64, "target_class": pl.String, "name": pl.String,
        "mbps": pl.Int64, "guid": pl.String, "numa": pl.Int64, "affinity": pl.String, "arch": pl.String,
        "family": pl.Int64, "model": pl.Int64, "host_hash": pl.String,
    },
    "graph_files": {
        "file": pl.UInt32, "line": pl.UInt32, "id": pl.Int64, "pattern": pl.Int64, "cross_nic": pl.Int64,
        "nchannels": pl.Int64, "bw_intra": pl.Float64, "bw_inter": pl.Float64, "type_intra": pl.String,
        "type_inter": pl.String, "gpus": pl.Int64,
    },
}  # fmt: skip


@cache
def empty(name: str) -> pl.DataFrame:
    return pl.DataFrame(schema=TABLES[name])


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the table's columns: missing ones and values out of range null, others dropped."""
    schema = TABLES[name]
    present = set(frame.columns)
    return frame.select(
        (pl.col(column).cast(kind, strict=False) if column in present else pl.lit(None, kind)).alias(column)
        for column, kind in schema.items()
    )


def table(tables: Mapping[str, pl.DataFrame], name: str) -> pl.DataFrame:
    """A table of a reading, empty where the reading has none."""
    found = tables.get(name)
    return empty(name) if found is None else found
