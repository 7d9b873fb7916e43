"""Write ncclcheck/facts/variables.tsv: what is known of the variables of NCCL and of its neighbours.

`python tools/make_variables.py NCCL.tsv RELATED.tsv` takes two lists with the columns name, first_tag, last_tag,
default, documented, meaning, kind and allowed: the variables that NCCL reads, tag by tag, and those of plugins and
frameworks. What is kept are facts that a rule can compare; `_MORE` adds names that the lists do not have, `_RENAMED`
what took a name's place, and `_ALLOWED` values where the list only has words for them.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "ncclcheck" / "facts" / "variables.tsv"
COLUMNS = ("name", "reader", "since", "until", "kind", "allowed", "default", "status", "real")

_RENAMED = {
    "NCCL_GRAPH": "NCCL_GRAPH_FILE",
    "NCCL_RINGS": "NCCL_GRAPH_FILE",
    "NCCL_MNNVL": "NCCL_MNNVL_ENABLE",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL",
    "NCCL_TREE_THRESHOLD": "NCCL_ALGO",
    "NCCL_SINGLE_RING_THRESHOLD": "NCCL_ALGO",
    "NCCL_LL_THRESHOLD": "NCCL_PROTO",
    "NCCL_THREAD_THRESHOLD": "NCCL_THREAD_THRESHOLDS",
    "NCCL_MAX_NRINGS": "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS": "NCCL_MIN_NCHANNELS",
    "NCCL_CHECKS_DISABLE": "NCCL_CHECK_POINTERS",
    "NCCL_WORK_FIFO_DEPTH": "NCCL_WORK_FIFO_BYTES",
    "NCCL_PROXY_PROFILE": "NCCL_PROFILER_PLUGIN",
    "NCCL_GDRCOPY_TAIL_ENABLE": "NCCL_GDRCOPY_SYNC_ENABLE",
    "NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS": "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_USE_SNAP": "NCCL_FASTRAK_USE_SNAP",
    "OFI_NCCL_RDMA_MAX_POSTED_BOUNCE_BUFFERS": "OFI_NCCL_RDMA_MAX_POSTED_EAGER_BUFFERS",
    "OFI_NCCL_RDMA_MIN_POSTED_BOUNCE_BUFFERS": "OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS",
}

# Deprecated while still read: release and successor.
_DEPRECATED = {"NCCL_CHECK_POINTERS": "NCCL_CHECK_MODE", "NCCL_MAX_NRINGS": "", "NCCL_MIN_NRINGS": ""}

_LEVELS = "LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|NODE|SYS|NET|DIS"
_ALLOWED = {
    "NCCL_P2P_LEVEL": f"{_LEVELS}|0..",
    "NCCL_NET_GDR_LEVEL": f"{_LEVELS}|0..",
    "NCCL_NET_MERGE_LEVEL": f"{_LEVELS}|PORT",
    "NCCL_IB_TIMEOUT": "0..31",
    "NCCL_GIN_GDAKI_NIC_HANDLER": "0..",
    "NCCL_CTA_POLICY": "", "NCCL_NETDEVS_POLICY": "", "NCCL_SYM_KERNEL": "", "NCCL_IB_GDR_LEVEL": "",
}  # fmt: skip
_KINDS = {"NCCL_P2P_LEVEL": "level", "NCCL_NET_GDR_LEVEL": "level", "NCCL_NET_MERGE_LEVEL": "level"}

# Names that exist though neither list has them: reader, names.
_MORE = {
    "nccl-rdma-sharp-plugins": ("NCCL_IBEXT_DISABLE", "NCCL_SHARP_DISABLE", "NCCL_UCX_DISABLE"),
    "RCCL": ("NCCL_RUN_DIAGNOSTICS", "NCCL_RUN_RAS_DIAGNOSTICS"),
    "libfabric": (
        "FI_EFA_TX_MIN_CREDITS", "FI_LOG_PROV", "FI_LOG_SUBSYS", "FI_PROVIDER_PATH", "FI_HMEM", "FI_UNIVERSE_SIZE",
        "FI_MR_CACHE_MAX_COUNT", "FI_MR_CACHE_MAX_SIZE", "FI_HMEM_CUDA_USE_GDRCOPY", "FI_EFA_TX_SIZE",
        "FI_EFA_RX_SIZE", "FI_CXI_DEFAULT_VNI", "FI_CXI_RDZV_THRESHOLD", "FI_CXI_REQ_BUF_SIZE", "FI_TCP_IFACE",
    ),
    "UCX": (
        "UCX_IB_SL", "UCX_IB_REG_METHODS", "UCX_RNDV_THRESH", "UCX_RNDV_SCHEME", "UCX_MAX_RNDV_RAILS",
        "UCX_MAX_EAGER_RAILS", "UCX_MEMTYPE_CACHE", "UCX_WARN_UNUSED_ENV_VARS", "UCX_LOG_FILE",
        "UCX_IB_PCI_RELAXED_ORDERING", "UCX_TCP_CM_REUSEADDR", "UCX_CUDA_IPC_CACHE", "UCX_ERROR_SIGNALS",
    ),
    # shell variables of build and job scripts
    "": (
        "NCCL_INCLUDE_DIR", "NCCL_LIBRARY", "NCCL_LIBRARIES", "NCCL_LIBRARY_DIR", "NCCL_ROOT_DIR", "NCCL_DIR",
        "NCCL_PATH", "NCCL_SRC", "NCCL_SRC_DIR", "NCCL_INSTALL_DIR", "NCCL_PREFIX", "NCCL_LIB", "NCCL_INC",
        "NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH", "NCCL_SUFFIX", "NCCL_VER", "NCCL_TAG", "NCCL_BRANCH", "NCCL_REPO",
        "NCCL_COMMIT", "NCCL_BUILD", "NCCL_ARGS", "NCCL_OPTS", "NCCL_ENV", "NCCL_TEST", "NCCL_TESTS", "NCCL_TEST_DIR",
        "NCCL_TESTS_DIR", "NCCL_TESTS_PATH", "NCCL_TESTS_HOME", "NCCL_TESTS_EXE", "NCCL_PLUGIN", "NCCL_PLUGIN_PATH",
        "NCCL_LOG", "NCCL_LOG_DIR",
        "OFI_NCCL_PATH", "OFI_NCCL_DIR", "OFI_NCCL_HOME",
        "NCCL_BIN", "NCCL_CMD", "NCCL_BENCH", "NCCL_GDR_FLAGS", "NCCL_PACKAGE",
    ),
}  # fmt: skip


def main(nccl: str, related: str) -> None:
    rows = [*map(_of_nccl, _rows(nccl)), *map(_of_others, _rows(related)), *_more()]
    rows = [row for row in rows if re.match(r"(?:\w+_)?NCCL_|UCX_|FI_|RCCL_|SHARP_|CUDA_", row["name"])]
    with TARGET.open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, COLUMNS, delimiter="\t", lineterminator="\n", restval="")
        table.writeheader()
        table.writerows(sorted(rows, key=lambda row: row["name"]))
    print(f"{TARGET.relative_to(ROOT)}: {len(rows)} variables")


def _rows(path: str) -> Iterable[Mapping[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def _of_nccl(row: Mapping[str, str]) -> dict[str, str]:
    name, last = row["name"], row["last_tag"]
    real = _RENAMED.get(name, _DEPRECATED.get(name, ""))
    return {
        "name": name,
        "reader": "NCCL",
        "since": _code(row["first_tag"]),
        "until": "" if last == "v2.30.7-1" else _code(last),
        "kind": _KINDS.get(name, row["kind"]),
        "allowed": _allowed(row),
        "default": _defaults(row["default"]),
        "status": "deprecated" if name in _DEPRECATED else "",
        "real": real,
    }


def _of_others(row: Mapping[str, str]) -> dict[str, str]:
    """Who reads it stands in brackets before the meaning, and what it stands for behind `of`."""
    name, last = row["name"], row["last_tag"]
    found = re.match(r"\[([^\]]*)\] (.*)", row["meaning"])
    reader, meaning = found.groups() if found else ("", row["meaning"])
    status = {"common typo": "typo", "not a variable": "never", "build systems": "script", "Google scripts": "script",
              "NVIDIA containers": "script", "PyTorch legacy": "renamed"}.get(reader, "")  # fmt: skip
    if name in _RENAMED:
        status = "renamed"
    meant = re.search(r"\b((?:TORCH_)?NCCL_[A-Z0-9_]+)", meaning) if status in ("typo", "never", "renamed") else None
    gone = last.removesuffix(" (then ignored)").removesuffix(" (then rejected)")
    return {
        "name": name,
        "reader": {"typo": "", "never": "", "script": "", "renamed": reader.removesuffix(" legacy")}.get(
            status, reader
        ),
        "until": gone if gone.startswith("aws-ofi-nccl") and gone != "aws-ofi-nccl 1.21" else "",
        "kind": row["kind"],
        "allowed": "" if status in ("typo", "never") else _allowed(row),
        "status": status,
        "real": _RENAMED.get(name) or (meant[1] if meant else ""),
    }


def _more() -> Iterable[dict[str, str]]:
    for reader, names in _MORE.items():
        for name in names:
            yield {"name": name, "reader": reader, "kind": "string", "status": "" if reader else "script"}


def _code(tag: str) -> str:
    """v2.18.3-1 -> 21803, v2.2.x -> 20299; "" for what came before."""
    found = re.match(r"v(\d+)\.(\d+)\.(\d+|x)", tag)
    if not found:
        return ""
    major, minor, patch = found.groups()
    return str(int(major) * 10000 + int(minor) * 100 + (99 if patch == "x" else int(patch)))


def _allowed(row: Mapping[str, str]) -> str:
    """Values and ranges, joined by bars; "" where the list has no closed set."""
    if row["name"] in _ALLOWED:
        return _ALLOWED[row["name"]]
    text, kind = re.sub(r"\([^)]*\)", "", row["allowed"]), row["kind"]
    if kind == "bool":
        return "0|1"
    if kind == "enum":
        items = [re.split(r" = | (?=[a-z])", item.strip())[0].strip() for item in text.split(",")]
        return "|".join(items) if all(re.fullmatch(r"-?\d+|[A-Za-z0-9_]+", item) for item in items) else ""
    if kind not in ("int", "bytes"):
        return ""
    ranges = [f"{low}..{high}" for low, high in re.findall(r"(-?\d+)\.\.(\d+)", text)]
    ranges += [f"{int(low) + (sign == '>')}.." for sign, low in re.findall(r"(>=?)(\d+)", text)]
    if ranges:
        return "|".join([*ranges, *re.findall(r"(?<![.\d])-\d+(?= =|,|$)", text)])
    return text.replace(",", "|") if re.fullmatch(r"\d+(?:,\d+)+", text) else ""


def _defaults(text: str) -> str:
    """`value@from-to` by release, joined by bars: 0@20402-20417|-1@20426-."""
    found = []
    for part in text.split("; "):
        match = re.fullmatch(r"(\S+)(?: \(([\d.]+)(\+| to ([\d.]+))?\))?", part.strip())
        if match is None:
            continue
        value, first, more, last = match.groups()
        since = _code(f"v{first}") if first else ""
        until = "" if not first or more == "+" else _code(f"v{last or first}")
        found.append(f"{'' if value == 'unset' else value}@{since}-{until}")
    return "|".join(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
