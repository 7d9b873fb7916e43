"""`ncclcheck PATH...`: exit codes, what goes where, options."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from ncclcheck.cli import check as check_module
from ncclcheck.cli.main import run

Capture = pytest.CaptureFixture[str]

ERROR = "n1 NCCL INFO Using network Socket\n"
WARNING = "n1 NCCL WARN No Device\n"
INFO = "n1 NCCL INFO Version 2\n"
HEALTHY = "n1 NCCL INFO fine\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "error.log": ERROR, "warning.log": WARNING, "info.log": INFO, "healthy.log": HEALTHY,
        "novel.txt": "It was a dark night.\n", "empty.log": "", "dir/healthy.log": HEALTHY, "dir/novel.txt": "Rain.\n",
    }.items():  # fmt: skip
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("healthy.log", 0),
        ("check healthy.log", 0),
        ("error.log", 1),
        ("warning.log", 0),
        ("warning.log --fail-on warning", 1),
        ("--fail-on warning info.log", 0),
        ("--fail-on info info.log", 1),
        ("error.log --fail-on never", 0),
        ("error.log --exit-zero", 0),
        ("error.log --ignore NET", 0),
        ("error.log --select IB", 0),
        ("error.log --select IB --extend-select name-net001", 1),
        ("novel.txt", 3),
        ("empty.log", 3),
        ("gone.log", 3),
        ("gone*.log", 3),
        ("novel.txt --exit-zero", 0),
        ("novel.txt --fail-on never", 3),
        ("healthy.log novel.txt", 3),
        ("healthy.log gone.log", 3),
        ("error.log gone.log", 1),
        ("dir", 0),
        ("error.log --select NTE", 2),
        ("error.log --ignore ALL", 2),
        ("error.log --fail-on sometimes", 2),
        ("error.log --output-format yaml", 2),
        ("error.log --nic-gbps 0", 2),
        ("error.log --params many", 2),
        ("error.log --params 70B --parallel dp=32,tp=8 --zero 3 --step-time 8s --gpu-price 2.5 --exit-zero", 0),
        ("error.log --params 70B --parallel dp=0", 2),
        ("error.log --params 70B --parallel dp=8,ep=3", 2),
        ("error.log --params 70B --parallel dp=8,ep=4", 2),
        ("error.log --params 70B --zero 4", 2),
        ("error.log --params 70B --zero three", 2),
        ("error.log --params 70B --step-time soon", 2),
        ("error.log --params 70B --step-time 0", 2),
        ("error.log --params 70B --gpu-price nan", 2),
        ("error.log --params 70B --gpu-price 1e30", 2),
        ("error.log --params 70B --tokens-per-gpu nan", 2),
        ("error.log --params 70B --tokens-per-gpu -1", 2),
        ("error.log --params 70B --mfu 40", 2),
        ("error.log --params 70B --day-share 0", 2),
        ("error.log --params 70B --layers 8.5", 2),
        ("error.log --params 70B --active-params 80B", 2),
        ("error.log --step-time 8s", 2),
        ("error.log --dtype int3", 2),
        ("error.log --gpu Z9000", 2),
        ("error.log --no-such-option", 2),
        ("error.log --output-file error.log", 2),
        ("error.log --output-file no/such/dir", 2),
        ("explain", 2),
    ],
)
def test_exit_codes(arguments: str, code: int, capsys: Capture) -> None:
    assert run(arguments.split()) == code
    out, err = capsys.readouterr()
    if code == 2:
        assert out == "" and "Error: " in err
    else:
        assert "3 rules: " in out or "1 rule: " in out or "2 rules: " in out


def test_a_valid_report_comes_with_exit_3(capsys: Capture) -> None:
    assert run(["novel.txt", "gone.log", "--output-format", "json"]) == 3
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert [(row["path"], row["kinds"], row["error"]) for row in document["inputs"]] == [
        ("novel.txt", [], None),
        ("gone.log", [], "no such file"),
    ]
    assert "ncclcheck: gone.log: no such file\n" in err
    assert "ncclcheck: novel.txt: nothing to judge here; looked for lines of NCCL" in err
    assert "NCCL_DEBUG=INFO" in err


def test_one_silent_file_of_a_directory_is_no_complaint(capsys: Capture) -> None:
    assert run(["dir"]) == 0
    assert "novel" not in capsys.readouterr().err


def test_logs_never_reach_stderr(capsys: Capture) -> None:
    Path("crash.log").write_text("NCCL crash secret\n")
    assert run(["-v", "crash.log"]) == 0
    out, err = capsys.readouterr()
    assert "secret" not in err
    assert "ncclcheck: internal error in rule NET001: RuntimeError at conftest.py:" in err
    assert "internal error in this rule (please report): RuntimeError" in " ".join(out.split())


def test_a_crash_of_the_program_quotes_no_log(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicError(BaseException):
        """As Polars raises: no Exception."""

    def broken(*arguments: object) -> None:
        raise PanicError("secret")

    monkeypatch.setattr(check_module, "run_check", broken)
    assert run(["error.log"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "secret" not in err and "internal error (please report" in err and "PanicError at test_check.py:" in err


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check_module, "run_check", interrupted)
    assert run(["error.log"]) == 130


def test_hostile_names_on_stderr(capsys: Capture) -> None:
    Path("::error::x\x1b[2J").write_text("a novel")
    assert run(["./::error::x\x1b[2J", "::error::gone"]) == 3
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert all(line.startswith("ncclcheck: ") for line in err.splitlines())


@pytest.mark.parametrize("arguments", [["-"], []])
def test_standard_input(arguments: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("error.log").open() as log:
        monkeypatch.setattr(sys, "stdin", log)
        assert run([*arguments, "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.startswith("-:1: NET001 Socket: ")


def test_no_input_is_a_wrong_call(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open() as nothing:
        for stdin in (None, nothing, io.StringIO("NCCL")):
            monkeypatch.setattr(sys, "stdin", stdin)
            assert run([]) == 2
            assert "no input" in capsys.readouterr().err


def test_output_file(capsys: Capture) -> None:
    assert run(["error.log", "--output-file", "report.txt", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out == ""
    assert Path("report.txt").read_text().startswith("error.log:1: NET001 ")
    assert run(["error.log", "--output-file", "-"]) == 1
    assert "NET001" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environment", "option", "colourful"),
    [
        ({}, "auto", False),
        ({}, "always", True),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "0"}, "auto", False),
        ({"FORCE_COLOR": "1"}, "never", False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
    ],
)
def test_colour(
    environment: dict[str, str], option: str, colourful: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    run(["error.log", "--color", option])
    assert ("\x1b[" in capsys.readouterr().out) is colourful


@pytest.mark.parametrize("columns", [60, 120])
def test_columns(columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("long.log").write_text("NCCL Socket " + "word " * 100)
    monkeypatch.setenv("COLUMNS", str(columns))
    run(["long.log"])
    widest = max(map(len, capsys.readouterr().out.splitlines()))
    assert columns - 8 < widest <= columns


def test_foreign_rules_that_do_not_load_are_told(capsys: Capture) -> None:
    run(["healthy.log"])
    assert "ncclcheck: entry point x: broken\n" in capsys.readouterr().err


def test_long_lines_and_skipped_files_are_told(capsys: Capture) -> None:
    Path("dir/model.bin").write_bytes(bytes(range(256)))
    Path("dir/healthy.log").write_bytes(b"NCCL" + b"x" * (9 << 20))
    run(["-v", "dir"])
    err = capsys.readouterr().err
    assert "dir/healthy.log: line 1 over 8 MiB: only the first 1 MiB was read" in err
    assert "skipped in directories and archives: 1 " in err


def test_output_never_replaces_a_log_of_a_directory_or_a_glob(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("n1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n")
    before = log.read_text()
    for argument in (str(tmp_path), str(tmp_path / "*.log")):
        assert run(["check", "--output-file", str(log), argument]) == 2
        assert log.read_text() == before


def test_the_same_of_many_files_is_told_once(capsys: Capture) -> None:
    Path("many").mkdir()
    for number in range(30):
        Path(f"many/{number:02}.log.gz").write_bytes(b"\x1f\x8b")
    assert run(["many", "error.log", "--output-format", "json"]) == 1
    out, err = capsys.readouterr()
    assert "many/00.log.gz and 29 more: the gzip data ends too early; what is there was read\n" in err
    assert len(err.splitlines()) == 2  # and the rules that do not load
    assert len([row for row in json.loads(out)["inputs"] if row["error"]]) == 30


def test_members_of_archives_are_named_in_findings(capsys: Capture) -> None:
    with tarfile.open("b.tar.gz", "w:gz") as archive:
        for name in ("error.log", "novel.txt"):
            archive.add(name, f"n1/{name}\n\x1b[2J")
    assert run(["b.tar.gz", "--output-format", "concise"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("b.tar.gz/n1/error.log\\x0a\\x1b[2J:1: NET001 Socket: ")
    assert "\x1b" not in out + err
    assert "looked for" not in err
