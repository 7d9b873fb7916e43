"""Events of ports and adapters, folded over the processes that print them."""

from __future__ import annotations

from fact_samples import Process, facts_of

from ncclcheck.facts.ports import port_events

OLD, NAMED = "NET/IB : Got async event : port {}", "NET/IB : mlx5_1:{} Got async error event: port {}"


def warned(process: Process, *texts: str) -> list[str]:
    return [f"{process.host}:{process.pid}:9 [0] transport/net_ib.cc:93 NCCL WARN {text}" for text in texts]


def test_an_event_is_one_for_all_processes_of_a_machine() -> None:
    log = [line for pid in (1, 2, 3) for line in warned(Process("n1", pid), NAMED.format(1, "error"))]
    (event,) = port_events(facts_of(log))
    assert (event.machine, event.device, event.kind, event.times, event.returned) == ("n1", "mlx5_1", "down", 1, False)


def test_a_port_is_back_though_a_process_was_killed_in_between() -> None:
    killed = warned(Process("n1", 1), NAMED.format(1, "error"))
    lives = warned(Process("n1", 2), NAMED.format(1, "error"), NAMED.format(1, "active"))
    (event,) = port_events(facts_of([*killed, *lives]))
    assert event.returned
    assert len(event.evidence) == 3


def test_ports_of_one_card_are_told_apart() -> None:
    log = warned(Process("n1", 1), NAMED.format(2, "error"), NAMED.format(1, "error"), NAMED.format(1, "active"))
    assert {event.device: event.returned for event in port_events(facts_of(log))} == {"mlx5_1:2": False, "mlx5_1": True}


def test_without_device_names_as_many_must_return_as_went() -> None:
    one_back = warned(Process("n1", 1), *(OLD.format(word) for word in ("error", "error", "active")))
    all_back = warned(Process("n2", 1), *(OLD.format(word) for word in ("error", "error", "active", "active")))
    assert {e.machine: e.returned for e in port_events(facts_of([*one_back, *all_back]))} == {"n1": False, "n2": True}


def test_events_of_a_new_configuration_are_none_of_ports() -> None:
    log = warned(Process("n1", 1), *(f"NET/IB : Got async event : {name} change" for name in ("LID", "SM", "P_Key")))
    assert port_events(facts_of(log)) == ()
