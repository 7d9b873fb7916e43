"""parse, rules, explain, and the program as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ncclcheck import __version__
from ncclcheck.cli import pipeline
from ncclcheck.cli.main import run, with_command

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]


def test_parse_prints_a_json_object_per_record(tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "run.log"
    log.write_text("hello\nNCCL ##[error]é\x1b\n" + "NCCL\n" * 2500)
    assert run(["parse", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2501
    assert json.loads(lines[0]) == {
        "path": str(log),
        "line": 2,
        "event": None,
        "fields": {"text": "NCCL ##[error]é\x1b"},
    }
    assert "##[" not in lines[0] and lines[0].isascii()


def test_parse_of_nothing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "novel.txt").write_text("Rain.\n")
    assert run(["parse", str(tmp_path / "novel.txt"), str(tmp_path / "gone")]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "looked for" in err and "gone: no such file" in err


def test_parse_of_many_small_inputs(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in groups; which lines there are and their order do not depend on that."""
    for number in range(9):
        (tmp_path / f"{number}.log").write_text(f"NCCL {number}\n")
    for bytes_together in (1, 15, 1 << 20):
        monkeypatch.setattr(pipeline, "PARSED_TOGETHER", bytes_together)
        assert run(["parse", str(tmp_path)]) == 0
        texts = [json.loads(line)["fields"]["text"] for line in capsys.readouterr().out.splitlines()]
        assert texts == [f"NCCL {number}" for number in range(9)]


def test_rules_as_a_table_and_as_json(capsys: Capture) -> None:
    assert run(["rules"]) == 0
    assert capsys.readouterr().out == (
        "IB001   name-ib001   warning  Fires on Device.\n"
        "LOG001  name-log001  info     Fires on Version.\n"
        "NET001  name-net001  error    Fires on Socket.\n"
    )
    assert run(["rules", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[2] == {
        "code": "NET001",
        "name": "name-net001",
        "family": "NET",
        "severity": "error",
        "summary": "Fires on Socket.",
        "since": "0.1.0",
        "caused_by": ["IB001"],
    }


@pytest.mark.parametrize("key", ["NET001", "net001", "name-net001"])
def test_explain(key: str, capsys: Capture) -> None:
    assert run(["explain", key]) == 0
    assert capsys.readouterr().out == (
        "NET001 name-net001\n"
        "family NET, severity error, since 0.1.0\n"
        "may be caused by IB001 name-ib001\n"
        "\n"
        "What it finds\n"
        "  NCCL lines that say Socket.\n"
    )


def test_explain_offers_the_nearest(capsys: Capture) -> None:
    assert run(["explain", "NET01"]) == 2
    assert "did you mean 'NET001'?" in capsys.readouterr().err


def test_the_default_command() -> None:
    assert with_command(["run.log"]) == ["check", "run.log"]
    assert with_command(["--select", "NET", "x"]) == ["check", "--select", "NET", "x"]
    assert with_command([]) == ["check"]
    assert with_command(["./rules"]) == ["check", "./rules"]
    assert with_command(["rules"]) == ["rules"]
    assert with_command(["--version"]) == ["--version"]


def program(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ncclcheck", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, text=True, capture_output=True, timeout=60, env=environment, **more)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", ["--version", "--help", "check --help"])
def test_nothing_heavy_is_loaded_for_a_word(arguments: str) -> None:
    code = (
        "import sys\nfrom ncclcheck.cli.main import run\n"
        f"assert run({arguments.split()!r}) == 0\n"
        "heavy = {'polars', 'lark', 'rich', 'pynvml', 'ClusterShell', 'zstandard'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"assert {arguments == '--help'} or 'ncclcheck.estimate.hardware' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_check_loads_nothing_that_only_estimates_need() -> None:
    code = (
        "import sys\nfrom ncclcheck.cli.main import run\n"
        "run(['fixtures/healthy/single-node-h100-2.26.log'])\n"
        "others = {'plotext', 'pygal', 'lark', 'ncclcheck.cli.estimate', 'ncclcheck.estimate.questions.bandwidth',"
        " 'ncclcheck.estimate.questions.batch', 'ncclcheck.estimate.questions.inference'}\n"
        "assert not others & set(sys.modules), others & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("stderr", ["/dev/full", "closed"])
def test_a_wrong_call_has_its_exit_code_even_if_nobody_can_be_told(stderr: str) -> None:
    redirected = "2>&-" if stderr == "closed" else f"2>{stderr}"
    command = f'"$0" -m ncclcheck estimate --no-such-option {redirected}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")


def test_version() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ncclcheck {__version__}\n", "")


def test_alone_it_never_waits() -> None:
    master, terminal = os.openpty()
    done = program(stdin=terminal)
    os.close(master)
    os.close(terminal)
    assert done.returncode == 2
    assert "no input" in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = (
        "import sys, time; from ncclcheck.cli.output import write_stdout\n"
        "time.sleep(0.3)\n"
        "assert write_stdout('x' * 100_000) is False\n"
        "assert write_stdout('more') in (True, False)\n"
    )
    script = f'{sys.executable} -c "{code}" | true; echo ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_full_disk_is_told() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    code = "from ncclcheck.cli.main import run; raise SystemExit(run(['rules', '--output-format', 'json']))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "cannot write: No space left on device" in done.stderr


def test_a_terminal_without_unicode() -> None:
    code = "from ncclcheck.cli.output import write_stdout; write_stdout('\\u6f22\\n')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, env=environment)
    assert done.stdout == b"\\u6f22\n"


LOG = (
    b"training starts\n"
    b"n1:12:34 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\r\n"
    b"n1:12:34 [0] NCCL INFO Using network Socket\n"
    b"::error::x\x1b[2J n1:12:34 [0] NCCL INFO a line that nobody knows \xff\xfe \xe2\x80\xae\0\n"
)


def test_the_whole_program_on_a_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(LOG)
    done = program(str(log), "--output-format", "json", "--exit-zero")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["inputs"][0]["kinds"] == ["nccl-log"]
    assert document["inputs"][0]["lines"] == 4
    assert len(document["rules"]) >= 14
    assert not [rule for rule in document["rules"] if "internal error" in str(rule["needs"])]

    terminal = program(str(log), "--color", "never")
    assert terminal.stderr == ""
    assert "\x1b" not in terminal.stdout and "\n::" not in terminal.stdout

    records = [json.loads(line) for line in program("parse", str(log)).stdout.splitlines()]
    assert [(record["line"], record["event"]) for record in records[:2]] == [
        (2, "bootstrap_using"),
        (3, "net_using"),
    ]


def test_the_readme_shows_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    example = (ROOT / "README.md").read_text(encoding="utf-8").split("```console\n$ ncclcheck ")[1].split("```")[0]
    path, shown = example.split("\n", 1)
    assert program(path, "--color", "never", cwd=ROOT).stdout == shown


def test_the_whole_program_on_a_novel(tmp_path: Path) -> None:
    novel = tmp_path / "novel.txt"
    novel.write_text("It was a dark night.\n")
    done = program(str(novel), "--output-format", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["inputs"][0]["kinds"] == []
    assert "looked for" in done.stderr
