"""What may be taken from a job or put upon it: `--without gdr`, `--with acs`. Each changes inputs of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ncclcheck.estimate.config import Config, NotModelledError
from ncclcheck.estimate.hardware import Hardware

Alternatives = tuple[Mapping[str, Any], ...]


class Change(NamedTuple):
    """put: Config fields to replace, once for each way that it may come; an empty mapping is no effect.

    loses: no job gets faster by it.
    """

    name: str
    told: str
    put: Callable[[Config, Hardware], Alternatives]
    loses: bool = True

    @property
    def what(self) -> str:
        """`gdr` of `without gdr`."""
        return self.name.partition(" ")[2]


def apply(changes: Iterable[Change], config: Config, table: Hardware) -> tuple[Config, ...]:
    """Every configuration that the changes together may make of one. Raises NotModelledError."""
    made = [config]
    for change in sorted(changes, key=_CHANGES.index):
        made = [replace(one, **fields) for one in made for fields in change.put(one, table)]
    return tuple(dict.fromkeys(made))


def named(without: Iterable[str], with_: Iterable[str]) -> tuple[Change, ...]:
    """The changes by their names, comma lists allowed. Raises ValueError that lists what is known."""
    found = []
    for flag, texts, known in (("--without", without, WITHOUT), ("--with", with_, WITH)):
        for part in (part.strip().lower() for text in texts for part in text.split(",")):
            name = _ALIASES.get(part, part)
            if name not in known:
                raise ValueError(f"{flag} {name!r} is not known; known: {', '.join(known)}")
            found.append(known[name])
    return tuple(dict.fromkeys(found))


def _fields(**fields: Any) -> Callable[[Config, Hardware], Alternatives]:
    return lambda config, table: (fields,)


def _sockets(config: Config, table: Hardware) -> Alternatives:
    """Over the same wire, of which TCP gets no more than RDMA does."""
    if config.nodes == 1 or config.network == "socket":
        return ({},)
    line_gbit = config.nic_gbit * min(1.0, table.networks[config.network].share / table.tcp.line_share)
    return ({"network": "socket", "tcp_gbit": line_gbit or None},)


def _no_nvlink(config: Config, table: Hardware) -> Alternatives:
    if config.gpus_per_node == 1 or config.intra != "nvlink":
        return ({},)
    paths = ("pcie-switch", "pcie-cpu") if table.gpus[config.gpu].p2p else ("shm",)
    return tuple({"intra": path} for path in paths)


def _no_p2p(config: Config, table: Hardware) -> Alternatives:
    return ({"intra": "shm"},) if config.gpus_per_node > 1 else ({},)


def _no_pxn(config: Config, table: Hardware) -> Alternatives:
    """Rings and trees stay on their rails; only messages to chosen peers change rails without it."""
    g = config.gpus_per_node
    crossing = {"all_to_all": (g - 1) / g, "sendrecv": 1.0 if g > 1 else 0.0}.get(config.collective, 0.0)
    return ({"crossing_share": max(crossing, config.crossing_share)},)


def _sharp(config: Config, table: Hardware) -> Alternatives:
    if config.network != "ib":
        raise NotModelledError("SHARP is in-network reduction of InfiniBand, and the job has none")
    return ({"sharp": True},)


def _effect(name: str) -> Callable[[Config, Hardware], Alternatives]:
    return lambda config, table: ({"effect": "+".join(filter(None, (config.effect, name)))},)


# In the order in which they are put on a job: a redirect by ACS is a VM's and more; sockets come before what they
# are tuned by.
_CHANGES = (
    Change("without gdr", "GPUDirect RDMA", _fields(gdr=False)),
    Change("without nvls", "in-switch reduction (NVLink SHARP)", _fields(nvls=False)),
    Change("without nvlink", "GPUs of a node talk over PCIe", _no_nvlink),
    Change("without p2p", "GPUs of a node talk through host memory", _no_p2p),
    Change("without pxn", "messages that change rails climb to the spine", _no_pxn),
    Change("with sockets", "TCP in place of RDMA", _sockets),
    Change("with tuned-sockets", "more sockets and threads", _fields(tcp_tuned=True), loses=False),
    Change("with sharp", "in-network reduction", _sharp, loses=False),
    Change("with vm", "a guest without a peer path", _fields(redirect="vm")),
    Change("with acs", "peer traffic through the root complex", _fields(redirect="acs")),
    *(
        Change(f"with {name}", "a factor of the hardware table", _effect(name))
        for name in (
            "nic-phb", "nic-sys", "shared-hca", "one-nic-per-rank", "lacp-bond", "roce-lossy", "roce-mtu",
            "split-data-on-qps", "ar-off", "ar-not-ready", "fec", "cpu-gdr",
        )
    ),
)  # fmt: skip

WITHOUT = {change.what: change for change in _CHANGES if change.name.startswith("without")}
WITH = {change.what: change for change in _CHANGES if not change.name.startswith("without")}
WITHOUT["rdma"] = WITH["sockets"]
_ALIASES = {"socket": "sockets", "tcp": "sockets"}
