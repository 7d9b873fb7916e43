"""From topology and graph files to rows of the fact tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from ncclcheck.facts.schema import conform
from ncclcheck.readers.topo_xml import Document, Node

Found = Sequence[tuple[int, Document]]

# Attribute -> column. What is not a number where one is expected becomes null (`conform`).
_COLUMNS = {
    "busid": "bus_id", "class": "pci_class", "vendor": "vendor", "device": "device", "link_speed": "link_speed",
    "link_width": "link_width", "dev": "dev", "rank": "rank", "sm": "sm", "gdr": "gdr", "target": "target",
    "count": "count", "tclass": "target_class", "name": "name", "speed": "mbps", "guid": "guid", "numaid": "numa",
    "affinity": "affinity", "arch": "arch", "familyid": "family", "modelid": "model", "host_hash": "host_hash",
}  # fmt: skip
_GRAPH_COLUMNS = {
    "id": "id", "pattern": "pattern", "crossnic": "cross_nic", "nchannels": "nchannels", "speedintra": "bw_intra",
    "speedinter": "bw_inter", "typeintra": "type_intra", "typeinter": "type_inter",
}  # fmt: skip

# PCI device ids of NVIDIA GPUs (PCI ID repository) and the names that the driver prints for them.
_GPU_NAMES = {
    "0x1db1": "Tesla V100-SXM2-16GB", "0x1db4": "Tesla V100-PCIE-16GB", "0x1db5": "Tesla V100-SXM2-32GB",
    "0x1db6": "Tesla V100-PCIE-32GB", "0x1db8": "Tesla V100-SXM3-32GB", "0x1df6": "Tesla V100S-PCIE-32GB",
    "0x1eb8": "Tesla T4", "0x1e04": "NVIDIA GeForce RTX 2080 Ti", "0x1e07": "NVIDIA GeForce RTX 2080 Ti",
    "0x20b0": "NVIDIA A100-SXM4-40GB", "0x20b2": "NVIDIA A100-SXM4-80GB", "0x20b5": "NVIDIA A100 80GB PCIe",
    "0x20f1": "NVIDIA A100-PCIE-40GB", "0x20bd": "NVIDIA A800-SXM4-40GB", "0x20f3": "NVIDIA A800-SXM4-80GB",
    "0x20f5": "NVIDIA A800 80GB PCIe", "0x20b7": "NVIDIA A30", "0x2235": "NVIDIA A40", "0x2236": "NVIDIA A10",
    "0x2237": "NVIDIA A10G", "0x2204": "NVIDIA GeForce RTX 3090", "0x2230": "NVIDIA RTX A6000",
    "0x2231": "NVIDIA RTX A5000", "0x2684": "NVIDIA GeForce RTX 4090", "0x2685": "NVIDIA GeForce RTX 4090 D",
    "0x26b1": "NVIDIA RTX 6000 Ada Generation", "0x26b5": "NVIDIA L40", "0x26b9": "NVIDIA L40S", "0x26ba": "NVIDIA L20",
    "0x27b8": "NVIDIA L4", "0x2321": "NVIDIA H100 NVL", "0x2322": "NVIDIA H800 PCIe", "0x2324": "NVIDIA H800",
    "0x2329": "NVIDIA H20", "0x2330": "NVIDIA H100 80GB HBM3", "0x2331": "NVIDIA H100 PCIe", "0x2335": "NVIDIA H200",
    "0x233b": "NVIDIA H200 NVL", "0x2342": "NVIDIA GH200 480GB", "0x2901": "NVIDIA B200", "0x2941": "NVIDIA GB200",
    "0x2b85": "NVIDIA GeForce RTX 5090", "0x2bb1": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "0x2bb4": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "0x2bb5": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "0x31c2": "NVIDIA GB300",
}  # fmt: skip


def topology_tables(found: Found) -> dict[str, pl.DataFrame]:
    files: list[dict[str, object]] = []
    nodes: list[dict[str, object]] = []
    graphs: list[dict[str, object]] = []
    for number, (source, document) in enumerate(found):
        files.append(
            {"file": number, "source": source, "line": document.line, "kind": document.kind,
             "complete": document.complete, "rccl": document.rccl}
        )  # fmt: skip
        if document.kind == "topo-xml":
            nodes += [
                {"file": number, "line": node.line, "node": place, "parent": node.parent, "tag": node.tag,
                 "whole": node.whole, **_named(node, _COLUMNS)}
                for place, node in enumerate(document.nodes)
            ]  # fmt: skip
        else:
            graphs += [{"file": number, **row} for row in _graphs(document)]
    parts = {"topo_files": files, "topo_nodes": nodes, "graph_files": graphs}
    return {name: conform(name, pl.from_dicts(rows, infer_schema_length=None)) for name, rows in parts.items() if rows}


def gpu_names(found: Found) -> Iterator[dict[str, object]]:
    """Rows of `gpu_names`: a PCI id names the model as surely as the driver does."""
    for source, document in found:
        for node in document.nodes:
            name = _GPU_NAMES.get(node.attributes.get("device", "").lower())
            if name and node.tag == "pci" and node.attributes.get("vendor", "").lower() == "0x10de":
                yield {"source": source, "line": node.line, "name": name}


def _named(node: Node, columns: dict[str, str]) -> dict[str, str | None]:
    return {column: node.attributes.get(name) for name, column in columns.items()}


def _graphs(document: Document) -> Iterator[dict[str, object]]:
    """A row per graph; gpus: how many its longest channel visits."""
    visits: dict[int, int] = {}
    for node in document.nodes:
        if node.tag == "gpu" and node.parent is not None:
            visits[node.parent] = visits.get(node.parent, 0) + 1
    for place, node in enumerate(document.nodes):
        if node.tag == "graph":
            mine = [n for channel, n in visits.items() if document.nodes[channel].parent == place]
            yield {"line": node.line, "gpus": max(mine, default=0), **_named(node, _GRAPH_COLUMNS)}
