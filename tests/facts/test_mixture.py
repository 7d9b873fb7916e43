"""Do the ranks of one communicator use one network?"""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.mixture import mixtures


def ranks(*networks: str, comm_id: str = "a1") -> list[str]:
    """A communicator of one rank per machine, each with its network."""
    log = []
    for rank, network in enumerate(networks):
        process = Process(f"{comm_id}n{rank}", 7)
        log += [*process.say(f"Using network {network}")]
        log += process.init("START", "5500", rank, len(networks), f"commId 0x{comm_id}")
    return log


def test_the_fewer_machines_stand_first() -> None:
    [mixture] = mixtures(facts_of(ranks("IB", "IB", "Socket", "IB")))
    assert mixture.parts == ((("Socket",), ("a1n2",)), (("IB",), ("a1n0", "a1n1", "a1n3")))


def test_versions_of_a_plugin_are_one_network_and_its_makers_are_not() -> None:
    assert mixtures(facts_of(ranks("IBext_v7", "IBext_v8"))) == ()
    assert mixtures(facts_of(ranks("Libfabric", "AWS Libfabric"))) == ()
    assert len(mixtures(facts_of(ranks("IB", "IBext_v8")))) == 1


def test_two_communicators_may_differ() -> None:
    facts = facts_of([*ranks("IB", "IB"), *ranks("Socket", "Socket", comm_id="b2")])
    assert mixtures(facts) == ()
