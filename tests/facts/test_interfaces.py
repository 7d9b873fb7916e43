"""Which interfaces are announced, and which addresses no other machine reaches?"""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.interfaces import announced, kind_of, unreachable_peers


def said(host: str, *texts: str) -> list[str]:
    return [f"{host}:7:7 [0] NCCL INFO {text}" for text in texts]


def refused(host: str, address: str) -> str:
    return f"{host}:7:9 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to {address}<4> failed : Refused"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("eth0", "ethernet"), ("bond0.2093", "ethernet"), ("br0", "ethernet"), ("br-05ab815fa14e", "bridge"),
     ("docker0", "bridge"), ("virbr0", "bridge"), ("lo", "loopback"), ("lom1", "ethernet"), ("ib0", "fabric"),
     ("ibp12s0", "fabric"), ("hsn0", "fabric"), ("wlp38s0", "wireless"), ("tailscale0", "vpn"), ("tunl0", "cluster"),
     ("nodelocaldns", "cluster"), ("kube-ipvs0", "cluster"), ("cali0123456789a", "pair"), ("enp1s0", "ethernet")],
)  # fmt: skip
def test_the_name_tells_the_kind(name: str, kind: str) -> None:
    assert kind_of(name)[0] == kind


def test_the_first_of_a_list_is_announced_and_bootstrap_goes_before_sockets() -> None:
    facts = facts_of(
        said("n1", "Bootstrap : Using [0]eno1:10.0.0.1<0> [1]docker0:172.17.0.1<0>",
             "NET/Socket : Using [0]virbr0:192.168.122.1<0>"),
        said("n2", "NET/Socket : Using [0]eno2:10.0.0.2<0> [1]virbr0:192.168.122.1<0>"),
    )  # fmt: skip
    assert [(one.name, one.machines) for one in announced(facts)] == [("eno1", ("n1",)), ("eno2", ("n2",))]


def test_release_2_3_prints_the_list_line_by_line() -> None:
    lines = ["NET : Using interface lo:127.0.0.1<0>", "NET : Using interface eth0:10.0.0.1<0>"]
    facts = facts_of(said("n1", *lines, "NET/Socket : 2 interfaces found", *lines))
    assert [(one.name, one.kind) for one in announced(facts)] == [("lo", "loopback")]


def test_an_address_of_a_listed_bridge_is_unreachable() -> None:
    using = said("n1", "NET/Socket : Using [0]eno1:10.0.0.1<0> [1]br-05ab815fa14e:172.19.0.1<0>")
    facts = facts_of([*using, refused("n2", "172.19.0.1"), refused("n2", "10.0.0.1")])
    assert [(peer.address, peer.machines) for peer in unreachable_peers(facts)] == [("172.19.0.1", ("n2",))]


def test_a_loopback_with_a_routed_address_is_an_interface_like_others() -> None:
    assert kind_of("lo", "10.1.2.3")[0] == "ethernet"
    assert kind_of("lo", "127.0.0.1")[0] == "loopback"


def test_a_network_may_have_the_numbers_of_dockers_bridge() -> None:
    assert (
        len(
            unreachable_peers(
                facts_of(said("n1", "Bootstrap : Using eth0:172.17.0.3<0>"), [refused("n2", "172.17.0.3")])
            )
        )
        == 1
    )
    assert (
        unreachable_peers(facts_of(said("n1", "Bootstrap : Using eno1:172.17.0.3<0>"), [refused("n2", "172.17.0.3")]))
        == ()
    )


def test_link_local_addresses_are_as_good_as_others_where_all_have_them() -> None:
    using = said("n1", "Bootstrap : Using eno7:169.254.8.1<0>")
    assert unreachable_peers(facts_of([*using, refused("n2", "169.254.8.1")])) == ()
    assert len(unreachable_peers(facts_of([refused("n2", "169.254.8.1")]))) == 1
