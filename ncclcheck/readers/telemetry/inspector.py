"""NCCL Inspector, a profiler plugin: each operation of a rank with its time, as JSON or as Prometheus' last values.

A time runs from when the rank was ready: in an operation of many ranks the last to arrive has the shortest.
"""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.json_document import JsonReader, Object
from ncclcheck.readers.telemetry.prometheus import MetricsReader, Sample

# Inspector's operations: the name of nccl-tests, and whether the size that it prints is one rank's of several.
_OPERATIONS = {
    "AllReduce": ("all_reduce", False), "AllGather": ("all_gather", True), "ReduceScatter": ("reduce_scatter", True),
    "Broadcast": ("broadcast", False), "Reduce": ("reduce", False), "Send": ("send", False), "Recv": ("recv", False),
}  # fmt: skip


class InspectorJson(JsonReader):
    """One object per operation: on a line each, or laid out by somebody's tool."""

    kind = "nccl-inspector"

    def goes_on(self, text: str) -> bool:
        return "inspector_output_format_version" in text

    def take(self, document: Object) -> None:
        for what, prefix in (("coll_perf", "coll"), ("p2p_perf", "p2p")):
            measured = document.object(what)
            if measured.whole:
                self._operation(document, measured, prefix)

    def _operation(self, document: Object, measured: Object, prefix: str) -> None:
        header, metadata = document.object("header"), document.object("metadata")
        printed, ranks = measured.text(prefix), header.count("n_ranks")
        op, of_one_rank = _OPERATIONS.get(printed, (printed[:40], False))
        nbytes, us = measured.count(f"{prefix}_msg_size_bytes"), measured.number(f"{prefix}_exec_time_us")
        if not op or nbytes is None or not us or us < 0 or (of_one_rank and not ranks):
            return
        line = measured.lines.get(f"{prefix}_exec_time_us", measured.line)
        self.operations.append(
            {
                "line": line,
                "host": metadata.text("hostname")[:255] or None,
                "pid": metadata.count("pid"),
                "comm": header.text("id")[:40] or None,
                "name": header.text("comm_name")[:80] or None,
                "rank": header.count("rank"),
                "nranks": ranks,
                "nodes": header.count("nnodes"),
                "op": op,
                "sn": measured.count(f"{prefix}_sn"),
                "size": nbytes * (ranks or 1) if of_one_rank else nbytes,
                "us": us,
                "algbw": measured.number(f"{prefix}_algobw_gbs"),
                "busbw": measured.number(f"{prefix}_busbw_gbs"),
                "timing": measured.text(f"{prefix}_timing_source")[:40] or None,
            }
        )


class InspectorMetrics(MetricsReader):
    kind, prefix = "nccl-inspector-prom", "nccl_"

    _WHAT = re.compile(r"nccl_(?:p2p_)?(?:collective_)?(bus_bandwidth_gbs|exec_time_microseconds)")

    def take(self, sample: Sample) -> bool:
        what, labels = self._WHAT.fullmatch(sample.metric), sample.labels
        printed = labels.get("collective") or labels.get("p2p_operation") or ""
        if what is None:
            return False
        if sample.value is None or sample.value <= 0 or not printed:
            return True
        algo, _, proto = labels.get("algo_proto", "").partition("_")
        self.operations.append(
            {
                "line": sample.line,
                "host": labels.get("node", "")[:255] or None,
                "name": labels.get("comm_name", "")[:80] or None,
                "gpu": labels.get("gpu", "")[:20] or None,
                "nranks": _count(labels.get("nranks", "")),
                "nodes": _count(labels.get("n_nodes", "")),
                "op": _OPERATIONS.get(printed, (printed[:40], False))[0],
                "bucket": labels.get("message_size", "")[:40] or None,
                "algo": algo.lower()[:20] or None,
                "proto": proto.lower()[:20] or None,
                "busbw" if what[1].startswith("bus") else "us": sample.value,
            }
        )
        return True


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
