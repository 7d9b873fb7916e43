"""Failed calls of libibverbs and the kinds of addresses at the two ends."""

from __future__ import annotations

import pytest
from fact_samples import facts_of

from ncclcheck.facts.verbs import verbs_failures

HEAD = "n1:7:9 [0] misc/ibvwrap.cc:318 NCCL WARN "


@pytest.mark.parametrize(
    ("gid", "kind"),
    [
        ("fe80::9a03:9bff:fe4d:1e20", "link-local"),
        ("::ffff:10.44.2.7", "IPv4"),
        ("::ffff:0a2c:0207", "IPv4"),
        ("0000:0000:0000:0000:0000:ffff:0a2c:0207", "IPv4"),
        ("::", "none"),
        ("fd00:1::7", "IPv6"),
    ],
)
def test_kinds_of_gids(gid: str, kind: str) -> None:
    line = (
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR,"
        f" local GID index 1, local GID {gid}, remote GID ::ffff:10.44.2.9"
    )
    (failure,) = verbs_failures(facts_of([HEAD + line]))
    assert (failure.local, failure.remote, failure.errno, failure.next_state) == (kind, "IPv4", 110, "RTR")
    assert failure.devices == ("mlx5_2",)


def test_words_stand_for_the_number_in_old_releases() -> None:
    (failure,) = verbs_failures(facts_of([HEAD + "Call to ibv_modify_qp failed with error No such device"]))
    assert (failure.call, failure.errno, failure.machines) == ("ibv_modify_qp", 19, ("n1",))
