"""GPUs as several outputs of nvidia-smi tell of them."""

from __future__ import annotations

from fact_samples import facts_of

from ncclcheck.facts.facts import Facts
from ncclcheck.facts.gpu_parts import gpu_parts, used_gpus
from ncclcheck.facts.host_parts import host_states
from ncclcheck.facts.nvlinks import dark_gpus, link_errors, linked_machines

UUID = "GPU-7f0c5d21-9b3e-4a68-8d17-40c2b6e9f1a3"
Q = f"""==============NVSMI LOG==============
Attached GPUs                           : 8
GPU 00000000:4D:00.0
    Product Name                        : NVIDIA H200
    GPU UUID                            : {UUID}
    Clocks Event Reasons
        Idle                            : Active
        HW Slowdown                     : Not Active
            HW Thermal Slowdown         : Not Active
    Utilization
        GPU                             : 3 %
"""
LINKS = f"""GPU 2: NVIDIA H200 (UUID: {UUID})
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
"""
CSV = """index, clocks_event_reasons.hw_thermal_slowdown, utilization.gpu [%]
2, Active, 71 %
"""


def together(*texts: str) -> Facts:
    return facts_of([line for text in texts for line in text.splitlines()])


def test_outputs_that_name_a_gpu_by_address_by_identifier_and_by_index_tell_of_one() -> None:
    (gpu,) = gpu_parts(together(Q, LINKS, CSV))
    assert (gpu.name, gpu.label, gpu.part.number("index")) == ("0000:4d:00.0", "GPU 0000:4d:00.0", 2)
    assert {link.number: link.values("active")[0].text for link in gpu.links} == {"0": "yes", "1": "no"}


def test_a_state_that_one_output_saw_was_there_though_another_saw_it_otherwise() -> None:
    (gpu,) = gpu_parts(together(Q, LINKS, CSV))
    seen, load = gpu.first("hw_thermal_slowdown", "yes"), gpu.most("utilization_pct")
    assert seen is not None and seen.kind == "nvidia-smi-csv"
    assert load is not None and load.number == 71
    assert gpu.knows(("xid", "idle")) and not gpu.knows(("xid",)) and gpu.most("xid") is None


def test_models_that_tools_name_are_names_of_the_jobs_gpus() -> None:
    assert together(Q).gpu_names == ("NVIDIA H200",)
    assert together("host-1:77:77 [0] NCCL INFO cudaDriverVersion 12080", Q).shape().gpu_names == ("NVIDIA H200",)


def test_gpus_of_ranks_by_address_and_by_index() -> None:
    head = "n1:7:9 [2] NCCL INFO comm 0x5581 rank 0 nranks 2"
    start = f"{head} cudaDev 0 nvmlDev 2 busId 4d000 commId 0x9a17c0de - Init START"
    assert used_gpus(facts_of([start])) == {("n1", "0000:4d:00.0"): 0, ("n1", "gpu2"): 0}


def test_what_is_wrong_with_a_host_is_said_once() -> None:
    words = "Failed to initialize NVML: Driver/library version mismatch"
    (state,) = host_states(together(f"n4: {words}", f"n4: {words}"), "driver_mismatch")
    assert (state.machine, state.text, state.evidence.line) == ("n4", "yes", 1)


def links(index: int, states: str, model: str = "NVIDIA H200") -> str:
    """states: a character per link, `-` for one that is down."""
    lines = [f"\t Link {n}: {'<inactive>' if state == '-' else '26.562 GB/s'}" for n, state in enumerate(states)]
    return "\n".join((f"GPU {index}: {model} (UUID: {UUID[:-1]}{index})", *lines))


def test_links_are_counted_where_all_of_a_gpu_are_shown() -> None:
    (machine,) = linked_machines(together(links(0, "++++"), links(1, "++-+"), links(2, "++")))
    assert [(gpu.name, gpu.amount) for gpu in machine.gpus] == [("GPU0", 4), ("GPU1", 3)]
    assert [gpu.name for gpu in machine.short] == ["GPU1"]
    assert machine.short[0].evidence.line == 9  # the link that is down


def test_one_gpu_alone_counts_where_some_of_its_links_are_down() -> None:
    assert linked_machines(together(links(0, "++++"))) == linked_machines(together(links(0, "----"))) == ()
    (machine,) = linked_machines(together(links(0, "++-+")))
    assert [(gpu.amount, gpu.down) for gpu in machine.gpus] == [(3, 1)]


def test_the_last_reading_of_a_link_counts() -> None:
    (machine,) = linked_machines(together(links(0, "+-"), links(1, "++"), links(0, "++")))
    assert machine.short == ()


def test_a_gpu_without_links_is_dark_where_it_has_siblings() -> None:
    assert dark_gpus(together(links(0, "--"))) == ()
    assert dark_gpus(together(links(0, "--"), links(1, "+-"))) == ()
    (dark,) = dark_gpus(together(links(0, "--"), links(1, "--")))
    assert dark.names == ("gpu0", "gpu1")
    (dark,) = dark_gpus(together(links(5, "--")))
    assert dark.names == ("gpu5",)


def test_counters_of_one_reading_show_no_rise() -> None:
    one = f"GPU 0: NVIDIA H200 (UUID: {UUID})\n\t Link 3: Replay Errors: {{}}"
    assert link_errors(together(one.format(4000))) == ()
    assert link_errors(together(one.format(4000), one.format(4000))) == ()
    (rise,) = link_errors(together(one.format(4000), one.format(4001)))
    assert (rise.what, rise.links) == ("replays that rise", ("3",))
