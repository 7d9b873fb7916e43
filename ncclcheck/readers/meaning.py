"""Meaning after syntax: from the grammar's fields as text to typed, release-aware columns.

The grammar says where a field stands; a few fields mean different things in different releases (the number in a channel
line's brackets, the GPU of a distance line). That is settled here, column by column, once per event. Field names that
leave this module are those of `ncclcheck parse`.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ncclcheck.readers.grammar import field_types
from ncclcheck.readers.release import code

Frame = pl.DataFrame

# Fields that the grammar has to name apart and that are one thing to a user.
_NAMES = {
    "env_name": "name",
    "config_name": "name",
    "hca_name": "name",
    "vdev_name": "name",
    "network_name": "network",
    "network_word": "network",
    "set_value": "value",
    "plugin_name": "plugin",
    "assigned_plugin": "plugin",
    "gin_plugin": "plugin",
    "quoted": "plugin",
    "plugin_kind": "kind",
    "profiler": "type",
    "environment": "type",
    "nic_name": "name",
    "dev_gpu": "gpu",
    "dev_nvls": "dev",
    "read_flag": "read",
    "limit_distance": "limit",
    "gdr_mode": "mode",
    "pxn_flag": "pxn",
    "gdr_flag": "gdr",
    "mnnvl_enabled": "enabled",
    "local_name": "local",
    "message": "text",
    "remote_name": "remote",
    "stream_ptr": "stream",
    "shm": "path",
    "shm_name": "path",
    "shm_action": "action",
    "shm_create": "action",
    "shm_map": "action",
    "register_word": "action",
    "collnet_register": "action",
    "nvls_register": "action",
    "register_kind": "kind",
    "buffer_type": "type",
    "copy_call": "copy",
    "copy_hierarchical": "copy",
    "direction_word": "direction",
    "transport_number": "transport",
    "peer_rank": "peer",
    "cuda_code": "code",
    "cuda_error": "error",
    "nvml_error": "error",
    "ibv_call": "call",
    "ipc_call": "call",
    "recv_call": "call",
    "affinity_call": "call",
    "post_call": "call",
    "socket_func": "func",
    "errno_words": "errno_text",
    "errno_text_retry": "errno_text",
    "errno_words_open": "errno_text",
    "errno_words_comma": "errno_text",
    "fatal_name": "event_name",
    "event_words": "event_name",
    "datatype_name": "datatype",
    "ofi_provider": "provider",
    "address_text": "address",
    "bad_value": "value",
    "path_nodes": "path",
    "to_paths": "to",
    "from_node": "from",
    "port_word": "port",
    "speed_path": "path",
    "speed_ifname": "ifname",
    "oob_filter": "filter",
    "connection_ptr": "connection",
}


# Events whose fields mean different things in different releases: `_low` and `_high` tell, the first and the last one
# that it can be (codes, or null), if they are there.
BY_RELEASE = frozenset({"channel_connect", "gdr_distance"})


def typed(event: str, frame: Frame) -> Frame:
    """Fields of one event with types and final names; columns that begin with "_" stay as they are."""
    types = field_types()
    columns = []
    for name in frame.columns:
        if name.startswith("_"):
            continue
        kind = types.get(name)
        column = pl.col(name)
        if kind == "INT":
            columns.append(column.cast(pl.Int64, strict=False))
        elif kind == "FLOAT":
            value = column.cast(pl.Float64, strict=False)
            columns.append(pl.when(value.is_finite()).then(value).alias(name))  # what was not measured is not known
        elif kind in ("HEX", "POINTER") and name not in _CONTEXT:
            columns.append(_hex(column).alias(name))
    derive = _DERIVED.get(event)
    frame = frame.with_columns(columns) if columns else frame
    frame = derive(frame) if derive else frame
    finals: dict[str, list[str]] = {}
    for name in frame.columns:
        finals.setdefault(_NAMES.get(name, name), []).append(name)
    return frame.select(pl.coalesce(names).alias(final) for final, names in finals.items())


def _hex(column: pl.Expr) -> pl.Expr:
    digits = column.str.to_lowercase().str.strip_prefix("0x").replace("(nil)", "0")
    return pl.concat_str(pl.lit("0x"), digits)


def _integer(column: pl.Expr) -> pl.Expr:
    return column.cast(pl.Int64, strict=False)


def _has(frame: Frame, name: str) -> bool:
    return name in frame.columns


def _optional(frame: Frame, *names: str) -> Frame:
    """Give a null text column for fields that no line of this input printed."""
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in names if name not in frame.columns)


def _flag(frame: Frame, name: str) -> pl.Expr:
    """True where a fixed word stood."""
    return pl.col(name).is_not_null() if _has(frame, name) else pl.lit(False)


def _groups(column: pl.Expr, item: str, names: list[str], integers: tuple[str, ...] = ()) -> pl.Expr:
    """A list field: `item` is a regular expression of one member with a group per name."""
    groups = pl.element().str.extract_groups(item)
    members = [
        groups.struct[index].cast(pl.Int64, strict=False).alias(name)
        if name in integers
        else groups.struct[index].alias(name)
        for index, name in enumerate(names)
    ]
    bare = item.replace("(?:", "\0").replace("(", "(?:").replace("\0", "(?:")
    return column.str.extract_all(bare).list.eval(pl.struct(members))


# ------------------------------------------------------------------------------------------------- events with lists

_INTERFACE = r"\[?([0-9]+)\]([^\s\[\]<>:]+):([^\s\[\]<>]*)<([0-9]+)>"
_HCA = r"\[?([0-9]+)\]([^\s\[\]:{}=]+):([0-9]+)(?::([0-9]*):([0-9]*))?/(IB|RoCE)"


def _interfaces(frame: Frame) -> Frame:
    names = ["index", "ifname", "address", "port"]
    if _has(frame, "interfaces"):
        frame = frame.with_columns(_groups(pl.col("interfaces"), _INTERFACE, names, ("index", "port")))
    if _has(frame, "ifaddr"):
        parts = pl.col("ifaddr").str.extract_groups(r"^([^:]+):(.*)<([0-9]+)>$")
        frame = frame.with_columns(
            ifname=parts.struct[0], address=parts.struct[1], port=_integer(parts.struct[2])
        ).drop("ifaddr")
    return frame


def _net_ib_using(frame: Frame) -> Frame:
    frame = _optional(frame, "oob")
    oob = pl.col("oob").str.extract_groups(r"OOB ([^:]+):(.*)<([0-9]+)>$")
    names = ["index", "name", "port", "rail", "plane", "link"]
    listed = pl.col("devices")
    return frame.with_columns(
        _groups(listed, _HCA, names, ("index", "port", "rail", "plane")).alias("devices"),
        # merged devices of 2.20.3 to 2.23.4: [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}
        merged=_groups(listed, r"([0-9]+)\]=\{([^{}]*)\}", ["index", "members"], ("index",)),
        relaxed_ordering=_flag(frame, "relaxed_ordering")
        | pl.col("oob").str.contains("[RO]", literal=True).fill_null(False),
        oob_ifname=oob.struct[0],
        oob_address=oob.struct[1],
        oob_port=_integer(oob.struct[2]),
    ).drop("oob")


def _ranks(frame: Frame) -> Frame:
    if _has(frame, "ranks"):
        many = pl.col("ranks").str.extract_all("[0-9]+").list.eval(_integer(pl.element()))
        if _has(frame, "rank"):
            many = pl.coalesce(many, pl.concat_list(pl.col("rank")))
        frame = frame.with_columns(ranks=many)
    elif _has(frame, "rank"):
        frame = frame.with_columns(ranks=pl.concat_list(pl.col("rank")))
    return frame.drop("rank", "blanks", strict=False)


def _numbers(column: pl.Expr) -> pl.Expr:
    return column.str.extract_all(r"-?[0-9]+").list.eval(_integer(pl.element()))


# One member of a Trees line. Which side has the slashes tells the direction: up->rank->down/down/down in 2.4,
# down/down/down->rank->up from 2.8.3, both halves with a bar between in 2.5 to 2.7.
_TREE = r"([0-9]+)\] ([-0-9/]+)->(-?[0-9]+)->([-0-9/]+)(?:\|([-0-9]+)->(-?[0-9]+)->([-0-9/]+))?"


def _trees(frame: Frame) -> Frame:
    groups = pl.element().str.extract_groups(_TREE)
    part = [groups.struct[index] for index in range(7)]
    downs_first = part[1].str.contains("/", literal=True)
    down = pl.when(downs_first).then(part[1]).otherwise(part[3])
    up = pl.when(downs_first).then(part[3]).otherwise(part[1])
    two, one = part[4].is_not_null(), part[4].is_null()
    member = pl.struct(
        channel=_integer(part[0]),
        rank=pl.when(one).then(_integer(part[2])),
        up=pl.when(one).then(_integer(up)),
        down=pl.when(one).then(_numbers(down)),
        up_tree=pl.when(two).then(pl.struct(down=_numbers(part[1]), rank=_integer(part[2]), up=_integer(part[3]))),
        down_tree=pl.when(two).then(pl.struct(up=_integer(part[4]), rank=_integer(part[5]), down=_numbers(part[6]))),
    )
    pattern = _TREE.replace("(?:", "\0").replace("(", "(?:").replace("\0", "(?:")
    return frame.with_columns(trees=pl.col("trees").str.extract_all(pattern).list.eval(member))


def _chains(frame: Frame) -> Frame:
    item = r"([0-9]+)\] (-?[0-9]+)->(-?[0-9]+)->(-?[0-9]+)"
    names = ["channel", "up", "rank", "down"]
    return frame.with_columns(chains=_groups(pl.col("chains"), item, names, tuple(names)))


def _nvls_trees(frame: Frame) -> Frame:
    groups = pl.element().str.extract_groups(r"^([-0-9/]+)->(-?[0-9]+)->(-?[0-9]+)$")
    member = pl.struct(down=_numbers(groups.struct[0]), rank=_integer(groups.struct[1]), up=_integer(groups.struct[2]))
    return frame.with_columns(trees=pl.col("nvls_trees").str.split(" ").list.eval(member)).drop("nvls_trees")


def _topo_path(frame: Frame) -> Frame:
    groups = pl.element().str.extract_groups(r"^:?([A-Z]+/\S+) \(([0-9]+)/([0-9.]+)/(\w+)\)$")
    member = pl.struct(
        node=groups.struct[0], hops=_integer(groups.struct[1]), bw=groups.struct[2].cast(pl.Float64, strict=False),
        type=groups.struct[3],
    )  # fmt: skip
    items = pl.col("to_paths").str.extract_all(r":?[A-Z]+/\S+ \([^()]*\)")
    return frame.with_columns(to=items.list.eval(member)).drop("to_paths")


def _graph_channel(frame: Frame) -> Frame:
    return frame.with_columns(path=pl.col("path_nodes").str.split(" ")).drop("path_nodes", "graph_indent", strict=False)


def _tuning_table(frame: Frame) -> Frame:
    cells = pl.col("table_row").str.strip_chars(" |").str.split("|").list.eval(pl.element().str.strip_chars())
    return frame.with_columns(row=cells.list.first(), values=cells.list.slice(1)).drop("table_row")


# --------------------------------------------------------------------------------------- events with release's meaning

# Fields whose base depends on the release: left as text by the general step.
_CONTEXT = {"src_bracket", "dst_bracket", "inter_bracket", "gpu", "hca"}


def _channel_connect(frame: Frame) -> Frame:
    frame = _optional(
        frame, "src_bracket", "dst_bracket", "inter_bracket", "p2p_transport", "shm_transport", "net_transport",
        "collnet_transport", "direct_shared_memory", "method", "method_indirect", "shm_send", "shm_recv", "direction",
        "network",
    )  # fmt: skip
    frame = frame.with_columns(
        pl.lit(None, pl.Int64).alias(name)
        for name in ("conn", "net_dev", "proxy_rank", "src", "dst", "rank")
        if not _has(frame, name)
    )
    transport = (
        pl.when(pl.col("p2p_transport").is_not_null()).then(pl.lit("P2P"))
        .when(pl.col("shm_transport").is_not_null() | pl.col("direct_shared_memory").is_not_null()).then(pl.lit("SHM"))
        .when(pl.col("net_transport").is_not_null()).then(pl.lit("NET"))
        .otherwise(pl.lit("COLLNET"))
    )  # fmt: skip
    # ranks on one device: its number in every release
    bus = _brackets_are_bus_ids(frame) & pl.col("method").ne_missing("common device")
    is_net, is_p2p = pl.col("transport").is_in(["NET", "COLLNET"]), pl.col("transport") == "P2P"
    only_direct = pl.col("direct_shared_memory").is_not_null() | (
        pl.col("shm_send").is_not_null() & pl.col("shm_recv").is_null()
    )
    flags = {name: _flag(frame, name) for name in ("gdr", "gdr_pci", "shared", "read", "ce")}
    frame = frame.with_columns(transport=transport, _bus=bus)
    frame = frame.with_columns(
        *(
            expression
            for side in ("src", "dst", "inter")
            for expression in (
                pl.when("_bus").then(_hex(pl.col(f"{side}_bracket"))).alias(f"{side}_bus_id"),
                pl.when(~pl.col("_bus")).then(_integer(pl.col(f"{side}_bracket"))).alias(f"{side}_dev"),
            )
        ),
        method=pl.coalesce("method", "method_indirect", pl.when(only_direct).then(pl.lit("direct"))),
        pxn=pl.when(is_net).then(pl.col("proxy_rank").is_not_null()),
        gdr=pl.when(is_net).then(flags["gdr"]),
        gdr_pci=pl.when(is_net).then(flags["gdr_pci"]),
        shared=pl.when(is_net).then(flags["shared"]),
        read=pl.when(is_p2p).then(flags["read"]),
        ce=pl.when(is_p2p).then(flags["ce"]),
        shm_send=pl.when(~only_direct).then("shm_send"),
    )
    return frame.drop(
        "_bus", "src_bracket", "dst_bracket", "inter_bracket", "p2p_transport", "shm_transport", "net_transport",
        "collnet_transport", "direct_shared_memory", "method_indirect",
    )  # fmt: skip


def _brackets_are_bus_ids(frame: Frame) -> pl.Expr:
    """Brackets hold a bus id in 2.5.6 to 2.18.1, but for ranks on one device. Where the release is unknown the brackets
    of the input tell: a device index has two digits at most."""
    wide = frame.select(
        pl.any_horizontal(pl.col("src_bracket", "dst_bracket").str.len_chars() > 2).any().fill_null(False)
    ).item()
    told = _from(frame, "2.5.0") & ~_from(frame, "2.18.2")
    printed = pl.col("_low") == pl.col("_high") if _has(frame, "_low") else pl.lit(False)
    same_device = (pl.col("method") == "common device") & (pl.col("src_bracket").str.len_chars() <= 2)
    bus = pl.when(printed).then(told).otherwise(told.fill_null(False) | bool(wide))
    return bus & ~same_device.fill_null(False)


def _from(frame: Frame, first: str) -> pl.Expr:
    """Is the release `first` or newer? Null where it can be either."""
    low, high = (pl.col(name) if _has(frame, name) else pl.lit(None, pl.Int32) for name in ("_low", "_high"))
    return pl.when(low >= code(first)).then(True).when(high < code(first)).then(False)


def _gdr_distance(frame: Frame) -> Frame:
    frame = _optional(frame, "gpu", "hca", "gpu_node", "net_node", "gdr_network")
    frame = frame.with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in ("gpu_nvml_dev", "gpu_rank") if not _has(frame, name)
    )
    cuda = pl.col("gpu_nvml_dev").is_not_null()  # GPU 3[3], 2.4
    ranks = _from(frame, "2.24.3").fill_null(pl.col("gpu").str.len_chars() <= 3)
    ids = _from(frame, "2.21.0").fill_null(pl.col("hca").str.len_chars() > 2)
    gpu, net = (
        pl.col("gpu_node").str.extract_groups(r"/(\d+)-(\d+)"),
        pl.col("net_node").str.extract_groups(r"/(\d+)-(\d+)"),
    )
    return frame.with_columns(
        enabled=pl.col("enabled") == "Enabled",
        network=pl.col("gdr_network").str.strip_prefix("NET/"),
        gpu_cuda_dev=pl.when(cuda).then(_integer(pl.col("gpu"))),
        gpu_busid=pl.when(~cuda & ~ranks).then(_hex(pl.col("gpu"))),
        gpu_rank=pl.coalesce("gpu_rank", pl.when(~cuda & ranks).then(_integer(pl.col("gpu")))),
        hca_id=pl.when(ids).then(_hex(pl.col("hca"))),
        hca=pl.when(~ids).then(_integer(pl.col("hca"))),
        gpu_system=_integer(gpu.struct[0]), gpu_local_id=_integer(gpu.struct[1]),
        net_system=_integer(net.struct[0]), net_local_id=_integer(net.struct[1]),
    ).drop("gpu", "gpu_node", "net_node", "gdr_network")  # fmt: skip


def _gdr_hca(frame: Frame) -> Frame:
    frame = _optional(frame, "gdr_reason", "gpu")
    return frame.with_columns(
        enabled=pl.col("enabled") == "Enabled",
        network=pl.col("gdr_network").str.strip_prefix("NET/"),
        reason=pl.col("gdr_reason").str.strip_chars(" ()"),
        gpu_cuda_dev=_integer(pl.col("gpu")),
        hca=_integer(pl.col("hca")),
    ).drop("gdr_reason", "gpu", "gdr_network")


# ----------------------------------------------------------------------------------------------------- small rewordings


def _version(frame: Frame) -> Frame:
    text = pl.col("version_text")
    return frame.with_columns(
        text=pl.concat_str(
            pl.when(pl.col("version_text").str.contains("+hip", literal=True))
            .then(pl.lit("RCCL"))
            .otherwise(pl.lit("NCCL")),
            pl.lit(" version "),
            text,
        ),
        version=text.str.extract(r"^([0-9]+(?:\.[0-9]+)*)"),
        cuda=text.str.extract(r"\+(?:cuda|hip)([0-9.]+)"),
        hip=text.str.contains("+hip", literal=True),
    ).drop("version_text")


def _env_set(frame: Frame) -> Frame:
    # numbers are printed with a full stop, texts without
    return frame.with_columns(value=pl.col("value").str.replace(r"^(-?[0-9]+)\.$", "$1"))


def _plugins(frame: Frame) -> Frame:
    frame = _optional(frame, "plugins", "plugin", "dlerror_no_plugin")
    listed = pl.col("plugins").str.replace(r"\.? Using internal.*$", "").str.strip_chars_end(". ")
    found = pl.col("dlerror_no_plugin").str.extract(r"No plugin found \(([^()]+)\)")
    return frame.with_columns(plugins=listed.str.split(" "), plugin=pl.coalesce("plugin", found)).drop(
        "dlerror_no_plugin"
    )


def _plugin_api(frame: Frame) -> Frame:
    frame = _optional(frame, "plugin_api")
    parts = pl.col("plugin_api").str.extract_groups(r"^(.*?)(?: \(v([0-9]+)\))?\.?$")
    return frame.with_columns(plugin=parts.struct[0], api=_integer(parts.struct[1])).drop("plugin_api")


def _topo_node(frame: Frame) -> Frame:
    frame = _optional(frame, "topo_indent", "topo_detail")
    name = pl.col("topo_node").str.extract_groups(r"^([A-Z]+)/(?:([0-9A-Fa-f]+)-)?([0-9A-Fa-f]+)$")
    detail = pl.col("topo_detail").str.strip_chars(" ()")
    is_net, is_cpu = pl.col("node") == "NET", pl.col("node") == "CPU"
    cpu = detail.str.extract_groups(r"^(-?[0-9]+)/(-?[0-9]+)/(-?[0-9]+)$")
    net = detail.str.extract_groups(r"^(?:([0-9]+)/)?([0-9A-Fa-f]+)/([0-9]+)/([0-9.]+)$")
    frame = frame.with_columns(
        depth=pl.col("topo_indent").str.find("+", literal=True).cast(pl.Int64).fill_null(0),
        node=name.struct[0], system=name.struct[1], id=name.struct[2],
    )  # fmt: skip
    return frame.with_columns(
        arch=pl.when(is_cpu).then(_integer(cpu.struct[0])), vendor=pl.when(is_cpu).then(_integer(cpu.struct[1])),
        model=pl.when(is_cpu).then(_integer(cpu.struct[2])), asic=pl.when(is_net).then(net.struct[1]),
        port=pl.when(is_net).then(_integer(net.struct[2])),
        net_bw=pl.when(is_net).then(net.struct[3].cast(pl.Float64, strict=False)),
        rank=pl.when(pl.col("node") == "GPU").then(_integer(detail.str.extract(r"^([0-9]+)(?:\) \[MLOPart|$)"))),
        mlo_part=_integer(detail.str.extract(r"\[MLOPart ([0-9]+)\]$")),
        device=pl.when(pl.col("node") == "PCI").then(detail),
    ).drop("topo_indent", "topo_detail", "topo_node")  # fmt: skip


def _connected(frame: Frame) -> Frame:
    frame = _optional(frame, "connected_what", "binomial", "collnet_chain")
    what = pl.coalesce("connected_what", "binomial", "collnet_chain", pl.lit("nvls tree"))
    return frame.with_columns(what=what).drop("connected_what", "binomial", "collnet_chain")


def _placed(frame: Frame) -> Frame:
    """The place in NCCL's source that some INFO lines begin with."""
    frame = _optional(frame, "trace_location", "trace_func")
    where = pl.col("trace_location").str.extract_groups(r"^(.*):([0-9]+)$")
    return frame.with_columns(
        src_file=where.struct[0], src_line=_integer(where.struct[1]), src_func=pl.col("trace_func")
    ).drop("trace_location", "trace_func")


def _error_trace(frame: Frame) -> Frame:
    frame = _optional(frame, "trace_tail")
    return _placed(frame).with_columns(
        thread=pl.col("trace_tail").str.extract(r"\[([^\[\]]+)\]"),
        errno_text=pl.col("trace_tail").str.extract(r"\(([^()]+)\)"),
    ).drop("trace_tail")  # fmt: skip


def _ibv_failed(frame: Frame) -> Frame:
    frame = _optional(frame, "ibv_error", "errno_words_comma", "detail")
    if not _has(frame, "errno"):
        frame = frame.with_columns(errno=pl.lit(None, pl.Int64))
    parts = pl.col("ibv_error").str.extract_groups(r"^(.*?)(?: errno ([0-9]+)|, Bad WR .*)?$")
    port = pl.col("detail").str.extract_groups(r"on dev ([^:,\s]+):([0-9]+)")
    retry = pl.col("detail").str.extract_groups(r"retrying ([0-9]+)/([0-9]+) after ([0-9]+) msec of sleep$")
    return frame.with_columns(
        errno_text=pl.coalesce("errno_words_comma", parts.struct[0]),
        errno=pl.coalesce("errno", _integer(parts.struct[1])),
        hca=port.struct[0], port=_integer(port.struct[1]),
        curr_state=pl.col("detail").str.extract(r"curr state (\w+)"),
        next_state=pl.col("detail").str.extract(r"next state (\w+)"),
        gid_index=_integer(pl.col("detail").str.extract(r"local GID index ([0-9]+)")),
        local_gid=pl.col("detail").str.extract(r"local GID ([0-9a-f:.]*:[0-9a-f:.]*)"),
        remote_gid=pl.col("detail").str.extract(r"remote GID ([0-9a-f:.]+)"),
        **{name: _integer(retry.struct[index]) for index, name in enumerate(("attempt", "max_attempts", "sleep_ms"))},
    ).drop("ibv_error", "errno_words_comma")  # fmt: skip


def _ib_completion_error(frame: Frame) -> Frame:
    tail = pl.col("completion_tail")
    frame = _optional(frame, "completion_tail")
    return frame.with_columns(
        req_type=pl.coalesce(tail.str.extract(r"req_type=(\w+)"), tail.str.extract(r"^ \((\w+)\)")),
        local_gid=tail.str.extract(r"localGid (\S+)"),
        remote_gid=tail.str.extract(r"remoteGids? ?(:?[0-9a-f]\S*|::\S+)"),  # the label may be glued to the address
        hca=tail.str.extract(r"hca (\S+)"),
    ).drop("completion_tail")


def _ib_async_event(frame: Frame) -> Frame:
    frame = _optional(
        frame, "hca_port", "fatal_name", "event_name", "event_words", "gid_table_changed", "unknown_event"
    )
    fatal = pl.when(pl.col("fatal_name").is_not_null()).then(True)
    return _hca_port(frame).with_columns(
        fatal=fatal.when(pl.col("event_words").is_not_null()).then(False),
        event_name=pl.coalesce("event_name", "fatal_name", "event_words", "gid_table_changed", "unknown_event"),
    ).drop("fatal_name", "event_words", "gid_table_changed", "unknown_event", "event_object", "event_detail",
           strict=False)  # fmt: skip


def _hca_port(frame: Frame) -> Frame:
    port = pl.col("hca_port").str.extract_groups(r"^(.+):([0-9]+)$")
    return frame.with_columns(hca=port.struct[0], port=_integer(port.struct[1])).drop("hca_port")


def _cuda_failure(frame: Frame) -> Frame:
    return _placed(frame).with_columns(error=pl.col("cuda_error").str.strip_chars("'")).drop("cuda_error")


def _nvml_failed(frame: Frame) -> Frame:
    frame = _optional(frame, "nvml_quoted", "nvml_error")
    error = pl.coalesce("nvml_error", pl.col("nvml_quoted").str.strip_chars("'"))
    return frame.with_columns(error=error).drop("nvml_quoted", "nvml_error")


def _conn_qp(frame: Frame) -> Frame:
    return frame.drop("qp_func", "qp_device", "query_ece", "fifo_keys", strict=False)


def _duplicate_gpu(frame: Frame) -> Frame:
    return frame.drop("text", strict=False)


def _socket_failed(frame: Frame) -> Frame:
    return frame.drop("errno2", "errno2_words", strict=False)


def _ib_device(frame: Frame) -> Frame:
    parts = pl.col("ib_device").str.extract_groups(r"^([^:]+):([^:]+):([0-9]+)/(\w+)$")
    return frame.with_columns(
        name=parts.struct[0], uverbs=parts.struct[1], port=_integer(parts.struct[2]), link=parts.struct[3]
    ).drop("ib_device")


def _shm(frame: Frame) -> Frame:
    frame = _optional(frame, "errno_words_open")
    return frame.with_columns(pl.col("errno_words_open").str.strip_chars_end())


def _load_failed(frame: Frame) -> Frame:
    frame = _optional(frame, "dlerror", "loader_error", "plugin")
    error = pl.coalesce("dlerror", "loader_error")
    asked = error.str.extract_groups(r" when loading (\S+)$|All attempts to load '([^']+)'").struct
    return frame.with_columns(
        dlerror=error.str.replace(r"(?: :)? when loading \S+$|\.? All attempts to load .*$", "").str.strip_suffix("."),
        plugin=pl.coalesce("plugin", asked[0], asked[1]),
    ).drop("loader_error")


def _incompatible(frame: Frame) -> Frame:
    frame = _optional(frame, "device_b", "link_b")
    columns = []
    for side in "ab":
        parts = pl.col(f"device_{side}").str.extract_groups(r"^([0-9]+)\]([^:]+):([0-9]+)\S*/(\w+)")
        columns += [
            _integer(parts.struct[0]).alias(f"dev_{side}"), parts.struct[1].alias(f"name_{side}"),
            _integer(parts.struct[2]).alias(f"port_{side}"), parts.struct[3].alias(f"link_{side}"),
        ]  # fmt: skip
    columns[-1] = pl.coalesce(columns[-1], "link_b").alias("link_b")
    return frame.with_columns(columns).drop("device_a", "device_b", "connect_or_merge", strict=False)


def _launch_mode(frame: Frame) -> Frame:
    return frame.with_columns(cgmd=_flag(frame, "cgmd"), stream=pl.when(_flag(frame, "stream")).then(True))


def _gdrcopy(frame: Frame) -> Frame:
    return frame.with_columns(
        _integer(pl.col(f"{side}_version").str.split(".").list.get(index, null_on_oob=True)).alias(f"{side}_{part}")
        for side in ("lib", "drv")
        for index, part in enumerate(("major", "minor"))
    ).drop("lib_version", "drv_version")


def _mnnvl_fabric(frame: Frame) -> Frame:
    halves = pl.col("uuid").str.split(".")
    return frame.with_columns(uuid0=_hex(halves.list.get(0)), uuid1=_hex(halves.list.get(1, null_on_oob=True))).drop(
        "uuid"
    )


def _nvls_support(frame: Frame) -> Frame:
    return frame.with_columns(available=pl.col("available") == "available")


def _collective(frame: Frame) -> Frame:
    if not _has(frame, "op_count"):  # folded
        return frame
    return frame.with_columns(op_count=_hex(pl.col("op_count").str.strip_prefix("opCount ")))


def _tuning_choice(frame: Frame) -> Frame:
    if _has(frame, "kernel"):
        frame = frame.with_columns(symmetric=pl.when(pl.col("kernel").is_not_null()).then(True))
    return frame


def _env_default(frame: Frame) -> Frame:
    return frame.with_columns(default=pl.col("default").str.strip_suffix("."))


def _affinity(frame: Frame) -> Frame:
    return frame.with_columns(pl.col("mask").str.strip_chars_end(".,"))


def _algo_unavailable(frame: Frame) -> Frame:
    frame = _optional(frame, "text")
    return frame.with_columns(
        pl.col("text").str.extract(rf"NCCL_{name.upper()} was set to (\S+?)\.?(?:\s|$)").alias(f"{name}_env")
        for name in ("algo", "proto")
    )


def _message_truncated(frame: Frame) -> Frame:
    """Who sent: the bootstrap has words of its own."""
    bootstrap = pl.when(_flag(frame, "bootstrap_message")).then(pl.lit("bootstrap"))
    return frame.with_columns(sender=bootstrap).drop("bootstrap_message", strict=False)


def _seconds(frame: Frame) -> Frame:
    return frame.with_columns(seconds=_integer(pl.col("seconds").str.strip_suffix("s")))


def _kilobytes(frame: Frame) -> Frame:
    return frame.with_columns(kb=_integer(pl.col("kb").str.strip_suffix("KB")))


def _git_version(frame: Frame) -> Frame:
    return frame.with_columns(text=pl.lit("NCCL git version ") + pl.col("branch") + " " + pl.col("commit"))


_DERIVED: dict[str, Callable[[Frame], Frame]] = {
    "affinity": _affinity,
    "version": _version,
    "git_version": _git_version,
    "bootstrap_using": _interfaces,
    "legacy_interface": _interfaces,
    "net_socket_using": _interfaces,
    "net_ib_using": _net_ib_using,
    "net_ib_device": _ib_device,
    "net_plugin_not_found": _plugins,
    "net_plugin_loaded": _plugin_api,
    "collnet_plugin_loaded": _plugin_api,
    "tuner_plugin_using": _plugin_api,
    "plugin_loaded": _plugin_api,
    "net_ib_conn_qp": _conn_qp,
    "ib_speed_change": _hca_port,
    "nvml_failed": _nvml_failed,
    "syscall_retry": _placed,
    "env_set": _env_set,
    "env_invalid": _env_default,
    "stack_limit": _kilobytes,
    "gdr_distance": _gdr_distance,
    "gdr_hca": _gdr_hca,
    "topo_node": _topo_node,
    "topo_path": _topo_path,
    "graph_channel": _graph_channel,
    "ring_order": _ranks,
    "nvls_head": _ranks,
    "trees": _trees,
    "nvls_trees": _nvls_trees,
    "collnet_chains": _chains,
    "connected": _connected,
    "channel_connect": _channel_connect,
    "launch_mode": _launch_mode,
    "gdrcopy": _gdrcopy,
    "mnnvl_fabric": _mnnvl_fabric,
    "nvls_support": _nvls_support,
    "collective": _collective,
    "tuning_choice": _tuning_choice,
    "tuning_table": _tuning_table,
    "error_trace": _error_trace,
    "cuda_failure": _cuda_failure,
    "duplicate_gpu": _duplicate_gpu,
    "socket_connect_failed": _socket_failed,
    "ibv_failed": _ibv_failed,
    "ib_completion_error": _ib_completion_error,
    "ib_async_event": _ib_async_event,
    "ib_rail_incompatible": _incompatible,
    "algo_unavailable": _algo_unavailable,
    "message_truncated": _message_truncated,
    "ras_keepalive": _seconds,
    "shm_failed": _shm,
    "shm_extend_failed": _shm,
    "net_plugin_load_failed": _load_failed,
}
