from fact_samples import Text

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.topology_sources import bus_id_text, file_loaded, mismatches
from ncclcheck.readers.read import read_sources

_SET = "vm-1:100:200 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/topo/nd.xml"
_START = "vm-1:100:200 [0] NCCL INFO ncclCommInitRank comm 0x7f00 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId {} commId 0x1 - Init START"  # fmt: skip  # noqa: E501
_FILE = (
    '<system version="1">',
    '<cpu numaid="0" arch="x86_64">',
    '<pci busid="0001:00:00.0" class="0x030200" link_speed="" link_width="0"/>',
    "</cpu>",
    "</system>",
)


def facts(log: list[str], name: str = "nd.xml") -> Facts:
    sources = [Text("log", tuple(log)), Text(name, _FILE)]
    return Facts(read_sources(sources).tables, [source.name for source in sources])


def test_addresses_as_files_write_them() -> None:
    assert bus_id_text("1a000") == "0000:1a:00.0"
    assert bus_id_text("100000") == "0001:00:00.0"
    assert bus_id_text("unknown") == "unknown"


def test_a_file_without_the_jobs_gpus() -> None:
    (found,) = mismatches(facts([_SET, _START.format("300000")]))
    assert (found.machine, found.absent, found.gpus) == ("vm-1", ("0003:00:00.0",), 1)


def test_a_file_that_holds_them_and_one_that_is_not_named() -> None:
    assert mismatches(facts([_SET, _START.format("100000")])) == ()
    assert mismatches(facts([_SET, _START.format("300000")], name="other.xml")) == ()


def test_a_named_file_counts_unless_it_is_missing() -> None:
    missing = "vm-1:100:200 [0] NCCL INFO Could not open XML topology file /opt/topo/nd.xml : No such file or directory"
    assert file_loaded(facts([_SET]))
    assert not file_loaded(facts([_SET, missing]))
