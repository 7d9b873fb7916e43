from fact_samples import facts_of

from ncclcheck.facts.graph_dump import dumped_gpus
from ncclcheck.facts.nvlinks import linked_machines

_HEAD = "hgx-{n}:40{n}:41{n} [0] NCCL INFO "


def dump(machine: int, *totals: float) -> list[str]:
    """The topology that one process prints: a switch per GPU, NVLink to the NVSwitches."""
    lines = ["=== System : maxBw 370.8 totalBw 370.8 ===", "CPU/0-0 (1/1/2)"]
    for place, total in enumerate(totals):
        lines += [
            f"+ PCI[48.0] - PCI/0-{place + 1}8000 (1000c0301000100b)",
            f"              + PCI[48.0] - GPU/0-{place + 1}a000 ({place})",
        ]
        lines += [f"                            + NVL[{total:.1f}] - NVS/0-0"] if total else []
    lines.append("+ SYS[10.0] - CPU/0-1")
    return [_HEAD.format(n=machine) + line for line in lines]


def matrix(*rows: str) -> list[str]:
    names = [f"GPU{place}" for place in range(len(rows))]
    return [
        "\t" + "\t".join(names),
        *(f"{name}\t" + "\t".join(row.split()) for name, row in zip(names, rows, strict=True)),
    ]


def test_gpus_of_a_dump_once_for_all_processes() -> None:
    lines = dump(1, 370.8, 329.6, 0)
    again = [line.replace(":401:411 [0]", ":402:412 [1]") for line in lines]
    found = dumped_gpus(facts_of([*lines, *again]))
    assert [(gpu.machine, gpu.gpu, gpu.pci_gbps, gpu.nvlink_gbps) for gpu in found] == [
        ("hgx-1", "0000:1a:00.0", 48.0, 370.8),
        ("hgx-1", "0000:2a:00.0", 48.0, 329.6),
        ("hgx-1", "0000:3a:00.0", 48.0, 0.0),
    ]


def test_a_gpu_at_the_end_of_an_excerpt_is_left_out() -> None:
    lines = dump(1, 370.8, 370.8)
    found = dumped_gpus(facts_of(lines[:-2]))
    assert [gpu.gpu for gpu in found] == ["0000:1a:00.0"]


def test_short_gpus_by_machine() -> None:
    machines = linked_machines(facts_of([*dump(1, 370.8, 370.8, 329.6), *dump(2, 370.8, 370.8)]))
    assert [(machine.machine, [gpu.name for gpu in machine.short]) for machine in machines] == [
        ("hgx-1", ["0000:3a:00.0"]),
        ("hgx-2", []),
    ]


def test_bonds_of_a_matrix() -> None:
    lost = matrix("X NV18 NV18 SYS", "NV18 X NV18 SYS", "NV18 NV18 X SYS", "SYS SYS SYS X")
    (machine,) = linked_machines(facts_of(lost))
    assert [(gpu.name, gpu.amount) for gpu in machine.short] == [("GPU3", 0)] and machine.most == 18
    direct = matrix("X NV4 NV4 NV4", "NV4 X NV4 NV3", "NV4 NV4 X NV4", "NV4 NV3 NV4 X")
    (machine,) = linked_machines(facts_of(direct))
    assert [(gpu.name, gpu.amount) for gpu in machine.short] == [("GPU1", 11), ("GPU3", 11)]


def test_bonds_that_differ_by_design_are_not_compared() -> None:
    pairs = matrix("X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X")
    cube = matrix("X NV1 NV2 NV2", "NV1 X NV2 NV2", "NV2 NV2 X NV1", "NV2 NV2 NV1 X")
    assert linked_machines(facts_of(pairs)) == linked_machines(facts_of(cube)) == ()
