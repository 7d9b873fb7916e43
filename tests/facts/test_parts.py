"""Which machine an output is from, and what outputs say together of one part."""

from __future__ import annotations

from typing import Any

import polars as pl

from ncclcheck.facts.outputs import Place, places, strangers
from ncclcheck.facts.parts import contradictions, of_job, of_kind, rise
from ncclcheck.facts.printed import Printed
from ncclcheck.facts.schema import conform


def facts(rows: list[dict[str, Any]], paths: list[str], hosts: dict[int, list[str]] | None = None) -> Printed:
    """hosts: those whose processes print a log in an input."""
    filled = [{"output": 0, "source": 0, "line": number + 1, "kind": "tool", **row} for number, row in enumerate(rows)]
    tables = {"telemetry": conform("telemetry", pl.from_dicts(filled, infer_schema_length=None))}
    processes = [{"source": source, "host": host} for source, of in (hosts or {}).items() for host in of]
    numbered = [{"proc": number, "pid": 100 + number, **row} for number, row in enumerate(processes)]
    if numbered:
        tables["processes"] = conform("processes", pl.from_dicts(numbered))
    return Printed(tables, paths)


def gpu(name: str, key: str, text: str, number: float | None = None, **where: Any) -> dict[str, Any]:
    return {"thing": "gpu", "name": name, "key": key, "text": text, "number": number, **where}


def test_a_host_in_the_output_is_one_of_the_jobs_with_or_without_its_domain() -> None:
    found = facts([gpu("gpu0", "model", "X", host="n7.rack.example")], ["a.txt"], {0: ["n7", "n8"]})
    assert places(found) == {0: Place("n7")}


def test_a_host_may_be_named_by_an_address_that_the_job_prints() -> None:
    found = facts([gpu("gpu0", "model", "X", host="10.7.0.8")], ["a.txt"], {0: ["n7", "n8"]})
    assert places(found) == {0: Place("10.7.0.8")}
    interfaces = [{"proc": 1, "source": 0, "line": 1, "use": "oob", "name": "eth0", "address": "10.7.0.8"}]
    known = {**found.tables, "interfaces": conform("interfaces", pl.from_dicts(interfaces))}
    assert places(Printed(known, found.paths)) == {0: Place("n8")}


def test_a_folder_or_a_file_may_bear_the_name_of_a_machine() -> None:
    rows = [gpu("gpu0", "model", "X"), gpu("gpu0", "model", "X", output=1, source=1)]
    found = facts(rows, ["out/n8/q.txt", "out/n7.txt", "run.log"], {2: ["n7", "n8"]})
    assert places(found) == {0: Place("n8"), 1: Place("n7")}


def test_beside_the_log_of_one_machine() -> None:
    rows = [gpu("gpu0", "model", "X", source=1)]
    assert places(facts(rows, ["b.log", "a.log"], {0: ["n1"], 1: ["n2"]})) == {0: Place("n2")}
    assert places(facts(rows, ["b.log", "a.log"], {0: ["n1", "n2"]})) == {0: Place("", "a.log")}


def test_machines_of_which_no_log_tells_are_called_as_their_inputs() -> None:
    one, other = gpu("gpu0", "model", "X"), gpu("gpu0", "model", "X", output=1, source=1)
    assert places(facts([one, other], ["nodes/n1.txt", "nodes/n2.txt"])) == {0: Place("n1"), 1: Place("n2")}
    assert places(facts([one, other], ["n1/q.txt", "n2/q.txt"])) == {0: Place("n1"), 1: Place("n2")}
    assert places(facts([one], ["n1.txt"])) == {0: Place("", "n1.txt")}
    assert places(facts([one, other], ["a.txt", "b.txt", "run.log"], {2: ["m1"]})) == {
        0: Place("", "a.txt"),
        1: Place("", "b.txt"),
    }


def test_inputs_of_one_folder_are_one_machine_unless_something_speaks_against_it() -> None:
    one, other = gpu("gpu0", "model", "X"), gpu("gpu0", "index", "0", output=1, source=1, kind="other")
    assert len(set(places(facts([one, other], ["d/a", "d/b"])).values())) == 1
    assert len(set(places(facts([one, {**other, "kind": "tool"}], ["d/a", "d/b"])).values())) == 2
    assert len(set(places(facts([one, other], ["d/a", "e/b"])).values())) == 2
    ids = [gpu("gpu0", "uuid", "GPU-1"), {**other, "key": "uuid", "text": "GPU-2"}]
    assert len(set(places(facts(ids, ["d/a", "d/b"])).values())) == 2


def test_identifiers_tell_machines_of_one_input_apart() -> None:
    rows = [gpu("gpu0", "uuid", "GPU-1"), gpu("gpu0", "uuid", "GPU-2", output=1)]
    assert places(facts(rows, ["a"])) == {0: Place("", "a"), 1: Place("", "a#2")}


def test_a_gpu_is_one_by_bus_id_index_or_uuid() -> None:
    rows = [
        gpu("gpu1", "uuid", "GPU-b"),
        gpu("0000:2a:00.0", "uuid", "GPU-b", output=1, kind="q"),
        gpu("0000:2a:00.0", "pcie_lanes", "8", 8.0, output=1, kind="q"),
        gpu("gpu1", "xid", "79", 79.0, output=2, kind="xid"),
        gpu("gpu0", "xid", "31", 31.0, output=2, kind="xid"),
    ]
    first, second = of_kind(facts(rows, ["a"]), "gpu")
    assert (first.name, first.number("pcie_lanes"), first.number("xid")) == ("0000:2a:00.0", 8.0, 79.0)
    assert (second.name, second.number("xid"), second.number("pcie_lanes")) == ("gpu0", 31.0, None)


def test_what_outputs_contradict_each_other_in_is_no_value() -> None:
    rows = [
        gpu("0000:2a:00.0", "pcie_lanes_max", "16x", 16.0),
        gpu("0000:2a:00.0", "pcie_lanes_max", "16", 16.0, output=1, kind="b"),
        gpu("0000:2a:00.0", "pcie_lanes_max", "8", 8.0, output=2, kind="c"),
        gpu("0000:2a:00.0", "pcie_gen", "1", 1.0, output=1, kind="b"),
        gpu("0000:2a:00.0", "pcie_gen", "5", 5.0, output=2, kind="c"),
    ]
    told = facts(rows, ["a"])
    (part,) = of_kind(told, "gpu")
    assert part.number("pcie_lanes_max") is None and part.number("pcie_gen") is None
    (one,) = contradictions(told)  # the generation changes with the load
    assert (one.key, [value.text for value in one.values]) == ("pcie_lanes_max", ["16x", "8"])


def test_a_counter_rises_between_readings_of_one_tool() -> None:
    counter = {"thing": "counter", "name": "p/1", "key": "c"}
    readings = [("a", 7.0), ("b", 90.0), ("a", 9.0), ("b", 90.0), ("a", 12.0)]
    rows = [{**counter, "text": "", "number": n, "kind": k, "output": at} for at, (k, n) in enumerate(readings)]
    (part,) = of_kind(facts(rows, ["x"]), "counter")
    assert rise(part.values("c")) == 5
    assert rise(part.values("c")[:2]) == 0  # two tools that count from different times


def test_parts_of_other_machines_are_none_of_the_jobs() -> None:
    rows = [gpu("gpu0", "model", "X", host=host, output=at) for at, host in enumerate(("n1", "spare"))]
    assert [part.machine for part in of_job(facts(rows, ["a"], {0: ["n1"]}), "gpu")] == ["n1"]
    assert len(of_job(facts(rows, ["a"]), "gpu")) == 2


def test_machines_that_no_log_names_are_strangers() -> None:
    rows = [gpu("gpu0", "model", "X", host="n9"), gpu("gpu0", "model", "X", output=1, host="n7")]
    assert strangers(facts(rows, ["a"], {0: ["n7", "n8"]})) == ("n9",)
    assert strangers(facts(rows, ["a"])) == ()
