"""Which machine an output comes from, by what stands before its lines and above it."""

from __future__ import annotations

import pytest
from telemetry_samples import read

from ncclcheck.readers.finding import Piece
from ncclcheck.readers.telemetry.outputs import Outputs

LIMITS = "max locked memory           (kbytes, -l) 8192\nopen files                          (-n) 1024\n"
PORT = "mlx5_4 port 1 ==> ens5f0np0 (Up)\n"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4410, GPU has fallen off the bus.\n"


def hosts(text: str) -> list[str | None]:
    """One per output, in order."""
    return list({row["output"]: row["host"] for row in read(text).rows}.values())


def labelled(label: str, text: str) -> str:
    return "".join(label + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("label", "host"),
    [
        ("[tor3-b7] ", "tor3-b7"),
        ("[tor3-b7] out: ", "tor3-b7"),
        ("[root@tor3-b7:22] out: ", "tor3-b7"),
        ("tor3-b7| ", "tor3-b7"),
        ("[10.9.8.7] ", "10.9.8.7"),
        ("[gpu-07] ", "gpu-07"),
        ("trainer-1  | ", None),
        ("[stderr] ", None),
        ("[rank0] ", None),
        ("[0] ", None),
        ("[nvidia-smi] ", None),
        ("[mlx5_0] ", None),
    ],
)
def test_a_label_names_a_machine_where_its_word_looks_like_one(label: str, host: str | None) -> None:
    assert hosts(labelled(label, PORT)) == [host]


@pytest.mark.parametrize("label", ["[tor3-b7] ", "[tor3-b7] out: ", "tor3-b7| "])
def test_no_value_is_lost_behind_a_label(label: str) -> None:
    assert hosts(labelled(label, LIMITS)) == ["tor3-b7"]
    assert hosts(label + XID) == hosts(f"{label}[81234.567890] {XID}") == ["tor3-b7"]


@pytest.mark.parametrize("stamp", ["[   12.345678] ", "[81234.567890] "])
def test_a_stamp_of_the_kernel_is_no_label(stamp: str) -> None:
    assert hosts(stamp + XID + stamp.replace("8]", "9]") + XID.replace("3b", "5e")) == [None]


HEADINGS = {
    "-" * 16 + "\n{}\n" + "-" * 16: "dshbak",
    "-" * 15 + "\n{} (1)\n" + "-" * 15: "clush",
    "==> {} <==": "head",
    "==> logs/{} <==": "head of files in a folder",
    "=== {} ===": "script",
    "##### {} #####": "script",
    "===== host: {} =====": "script",
    "{} | CHANGED | rc=0 >>": "ansible",
    "{} | FAILED | rc=2 >>": "ansible",
    "[1] 10:44:09 [SUCCESS] {}": "pssh",
}


@pytest.mark.parametrize("heading", HEADINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_heading_names_the_machine_of_what_follows(heading: str, end: str) -> None:
    text = "".join(f"{heading.format(host)}\n{PORT}{LIMITS}" for host in ("tor3-b7", "tor3-b8"))
    assert hosts(text.replace("\n", end)) == ["tor3-b7", "tor3-b7", "tor3-b8", "tor3-b8"]


def test_a_heading_far_above_an_output_counts() -> None:
    uptime = "17 jobs in the queue\n" * 300
    assert hosts(f"=== b7 ===\n{PORT}=== b8 ===\n{uptime}{PORT}{uptime}=== b9 ===\n{uptime}{PORT}") == [
        "b7",
        "b8",
        "b9",
    ]


def test_an_output_ends_at_a_heading() -> None:
    """What goes on below is another machine's, though its first line was cut."""
    assert "nofile" in {row["key"] for row in read(LIMITS).rows}
    first, second = LIMITS.splitlines(keepends=True)
    rows = read(f"=== b7 ===\n{first}=== b8 ===\n{second}").rows
    assert [(row["host"], row["key"]) for row in rows] == [("b7", "memlock_kib"), ("b8", "nofile")]


@pytest.mark.parametrize("several", ["b[1-4]", "b[01-04,07] (5)", "b1,b2", "rack[1-2]-b[1-4]"])
def test_below_a_folded_set_an_output_is_of_no_one(several: str) -> None:
    rule = "-" * 16
    assert hosts(f"root@login1:~# clush -ab ibdev2netdev\n{rule}\n{several}\n{rule}\n{PORT}") == [None]


def test_a_file_that_is_not_called_as_a_machine_is_of_no_one() -> None:
    assert hosts(f"==> b7 <==\n{PORT}\n==> notes-2.txt <==\n{PORT}") == ["b7", None]


@pytest.mark.parametrize(
    "line",
    [
        "=============NVSMI LOG=============",
        "========== NVSMI LOG ==========",
        "=== nvidia-smi ===",
        "=== mlx5_0 ===",
        "=== GPU0 ===",
        "=== ens5f0np0 ===",
        "=== 550.90.12 ===",
        "=== 2031-05-06 ===",
        "=== cuda-12.6 ===",
        "=== H100 ===",
        "=== step-2 ===",
        "=== show_gids ===",
        "##### GPU 3 #####",
        "=" * 60 + "\ntrain-7b.py FAILED\n" + "-" * 60 + "\nFailures:",
        "-" * 60 + "\nRoot Cause (first observed failure):\n" + "-" * 60,
        "-" * 60 + "\nGPU0\n" + "-" * 60,
        "-" * 60 + "\n" + "-" * 60,
        "+----------+\n| a1 | b2 |\n+----------+",
        "==> /sys/class/net/b2 <==",
        "mlx5_9 port 1 ==> b9 (Down)",
        "a line with === b9 === in it",
        "---\nb9\n---",
        "# Questions: help@hpc3.example.org: day and night   #",
    ],
)
def test_what_is_no_heading(line: str) -> None:
    text = f"=== b7 ===\n{line}\n{PORT}"
    assert set(hosts(text)) == {"b7"}


def test_one_prompt_stands_for_all_outputs_of_a_script() -> None:
    banner = "collecting, this takes a while\n" * 40
    outputs = (PORT, LIMITS, XID, PORT, LIMITS)
    text = f"root@b7:~# bash collect.sh\n{banner}{banner.join(outputs)}"
    assert hosts(text) == ["b7"] * 5
    assert hosts(f"{text}{banner}[root@b8 ~]# bash collect.sh\n{banner}{PORT}") == ["b7"] * 5 + ["b8"]


@pytest.mark.parametrize(
    "prompt",
    ["root@b8:~# ls", "(venv) [root@b8 ~]$ ls", "ops@b8:/var/log$", "> root@b8:~# ls", "10:22:31 root@b8:~# ls"],
)
def test_prompts(prompt: str) -> None:
    assert hosts(f"=== b7 ===\n{PORT}{prompt}\n{PORT}") == ["b7", "b8"]


def test_no_machine_is_believed_past_a_part_that_was_not_read() -> None:
    """Parts of an input that hold nothing of interest never come here."""
    outputs = Outputs()
    outputs.look(Piece(0, f"=== b7 ===\n{LIMITS}".encode(), 1))
    outputs.look(Piece(0, PORT.encode(), 9000))
    outputs.finish()
    assert {row["kind"]: row["host"] for row in outputs.rows} == {"limits": "b7", "ibdev2netdev": None}
