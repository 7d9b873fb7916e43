"""A site's constants: fitted to its own tables, written, read again, and said wherever they count."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from perf_samples import Run

from ncclcheck.cli.main import run
from ncclcheck.estimate.config import Config
from ncclcheck.estimate.hardware_table import constant
from ncclcheck.estimate.model import shipped_model
from ncclcheck.estimate.questions.calibration import calibrate, point_of
from ncclcheck.estimate.questions.job import Job
from ncclcheck.estimate.site import BOUNDS, read_site, site_text
from ncclcheck.facts.evidence import Evidence
from ncclcheck.facts.measured import Measured
from ncclcheck.facts.shape import JobShape

GIB = 1 << 30
# Four nodes with eight GPUs and four NDR rails: 177 GB/s where the package expects 192.
PAIRS = Run([(GIB, 171.0, 171.0), (8 * GIB, 177.0, 176.5)], ranks=32, hosts=("s1", "s2", "s3", "s4"),
            model="NVIDIA H100 80GB HBM3")  # fmt: skip
FLAGS = ("--nics", "4", "--nic-gbps", "400", "--transport", "ib")
RAILS = Job(nics=4, nic_gbit=400.0, network="ib")
MEASURED = Measured(
    "all_reduce", 177.0, 177.0, 177.0, GIB, 8 * GIB, True, True, 32, 4, (), Evidence("t.txt", 9, "")
)  # fmt: skip
H100 = JobShape(gpu_names=("NVIDIA H100 80GB HBM3",))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NCCLCHECK_SITE", raising=False)
    monkeypatch.setenv("COLUMNS", "160")


def table(run_: Run, name: str = "bench.txt") -> str:
    Path(name).write_text("\n".join(run_.lines()) + "\n")
    return name


# -------------------------------------------------------------------------------------------------------- the file


def test_a_site_file_is_read_as_it_was_written() -> None:
    constants = {"networks.ib.share": 0.91, "pcie.ring_shm.4": 0.125}
    site = read_site("s.toml", site_text(constants, ("a remark",)))
    assert site.constants == constants
    assert "networks.ib.share 0.91 (shipped 0.96)" in site.text


def test_every_constant_of_a_site_is_one_of_the_table_and_inside_its_bounds() -> None:
    for path, (low, high) in BOUNDS.items():
        assert low < constant(path) <= high, path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "TOML"),
        ("", r"\[constants\]"),
        ("[constants]\n[more]", r"\[constants\]"),
        ("constants = 3", "table"),
        ('[constants]\n"nvls.hopper.gbps" = 300', "no constant of a site"),
        ("[constants.networks.ib]\nshare = 0.9", "no constant of a site"),
        ('[constants]\n"networks.ib.share" = 1.2', "0.05 to 1"),
        ('[constants]\n"networks.ib.share" = nan', "0.05 to 1"),
        ('[constants]\n"networks.ib.share" = "0.9"', "0.05 to 1"),
        ('[constants]\n"networks.ib.share" = true', "0.05 to 1"),
        ('[constants]\n"networks.ib.share" = -inf', "0.05 to 1"),
        ('[constants]\n"networks.ib.share" = 1' + "0" * 400, "0.05 to 1"),
        ("[constants]\nx = " + "[" * 5000, "TOML"),
    ],
)
def test_what_is_no_site_file(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_site("s.toml", text)


def test_the_model_of_a_site() -> None:
    config = Config(4, 8, "H100 SXM", network="ib", nics=4, nic_gbit=400)
    site = read_site("s.toml", site_text({"networks.ib.share": 0.48})).model()
    half = site.plateau(config).busbw.expected / shipped_model().plateau(config).busbw.expected
    assert half == pytest.approx(0.5, rel=0.01)
    assert "networks.ib.share from s.toml" in site.table.networks["ib"].source
    assert shipped_model().site == ""


# ----------------------------------------------------------------------------------------------------- the fitting


def test_a_constant_is_fitted_to_what_was_measured() -> None:
    found = calibrate([point_of(MEASURED, H100, RAILS)])
    assert list(found.constants) == ["networks.ib.share"]
    assert found.after < 0.01 < found.before
    assert found.far == []


def test_constants_stay_inside_their_bounds_and_far_ones_are_told() -> None:
    fast = calibrate([point_of(MEASURED._replace(busbw=400.0), H100, RAILS)])
    assert fast.constants == {"networks.ib.share": 1.0}
    slow = calibrate([point_of(MEASURED._replace(busbw=20.0), H100, RAILS)])
    assert slow.far == ["networks.ib.share"]


def test_the_log_around_a_table_tells_what_flags_do_not() -> None:
    shape = JobShape(nodes=4, gpus_per_node=8, nranks=32, gpu_names=H100.gpu_names, nics_per_node=4, nic_gbit=(400.0,),
                     network="ib")  # fmt: skip
    assert point_of(MEASURED, shape, Job()) == point_of(MEASURED, H100, RAILS)
    with pytest.raises(ValueError, match="--nics"):  # a table of another size than the job around it
        point_of(MEASURED._replace(ranks=16, nodes=2), shape, Job())


@pytest.mark.parametrize(
    ("measured", "told", "why"),
    [
        (MEASURED._replace(enough=False), RAILS, "too small"),
        (MEASURED._replace(busbw=0.0, least=0.0), RAILS, "busbw is 0"),
        (MEASURED._replace(collective="gather"), RAILS, "gather"),
        (MEASURED._replace(nodes=None), RAILS, "--nodes"),
        (MEASURED._replace(ranks=None), RAILS, "how many ranks"),
        (MEASURED, replace(RAILS, nics=None), "--nics"),
        (MEASURED, Job(), "--nic"),
    ],
)
def test_tables_that_will_not_do(measured: Measured, told: Job, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        point_of(measured, H100, told)


def test_a_table_that_does_not_name_its_gpu() -> None:
    with pytest.raises(ValueError, match="--gpu"):
        point_of(MEASURED, JobShape(), RAILS)
    assert point_of(MEASURED, JobShape(), replace(RAILS, gpu="H100")).config.gpu == "H100 SXM"


def test_what_is_the_same_everywhere_is_not_fitted() -> None:
    node = MEASURED._replace(ranks=8, nodes=1, busbw=470.0)
    with pytest.raises(ValueError, match="the same everywhere"):
        calibrate([point_of(node, H100, Job())])


# ------------------------------------------------------------------------------------------------- the command line


def test_a_glob_puts_several_tables_behind_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    tables = [table(PAIRS, f"bench-{number}.txt") for number in range(3)]
    assert run(["estimate", "--calibrate", *tables, *FLAGS]) == 0
    shown = capsys.readouterr().out
    assert "fitted to (3)" in shown
    assert all(f"{name}:" in shown for name in tables)


def test_ranks_and_gpus_per_node_tell_the_nodes() -> None:
    told = replace(RAILS, gpus_per_node=8)
    point = point_of(MEASURED._replace(nodes=None), H100, told)
    assert (point.config.nodes, point.config.gpus_per_node) == (4, 8)
    with pytest.raises(ValueError, match="--gpus-per-node"):
        point_of(MEASURED._replace(nodes=None), H100, RAILS)


def test_calibrate_writes_a_file_that_estimates_and_checks_use(capsys: pytest.CaptureFixture[str]) -> None:
    bench = table(PAIRS)
    assert run(["estimate", "--calibrate", bench, *FLAGS]) == 0
    shown = capsys.readouterr().out
    assert "median error" in shown and "networks.ib.share" in shown and f"{bench}:" in shown

    job = ["estimate", "--nodes", "4", "--gpus-per-node", "8", "--gpu", "H100", *FLAGS, "--output-format", "json"]
    assert run(job) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["figures"][0]["expected"] == pytest.approx(177, rel=0.02)
    assert any("ncclcheck-site.toml: networks.ib.share" in remark for remark in document["remarks"])

    assert run(["check", bench]) == 0
    assert "site   ncclcheck-site.toml: networks.ib.share" in capsys.readouterr().out
    assert run(["check", bench, "--output-format", "json"]) == 0
    assert "networks.ib.share" in json.loads(capsys.readouterr().out)["site"]


def test_a_second_calibration_keeps_what_its_tables_do_not_speak_of(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(site_text({"tcp.few_gpus_gbps": 1.5, "networks.ib.share": 0.5}))
    assert run(["estimate", "--calibrate", table(PAIRS), *FLAGS, "--site-file", "mine.toml"]) == 0
    kept = read_site("mine.toml", Path("mine.toml").read_text()).constants
    assert kept["tcp.few_gpus_gbps"] == 1.5
    assert 0.8 < kept["networks.ib.share"] < 0.95


def test_the_site_is_named_by_flag_or_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.toml").write_text(site_text({"networks.ib.share": 0.5}))
    Path("b.toml").write_text(site_text({"networks.ib.share": 0.7}))
    monkeypatch.setenv("NCCLCHECK_SITE", "b.toml")
    bench = table(PAIRS)
    for flags, used in (((), "b.toml: networks.ib.share 0.7"), (("--site", "a.toml"), "a.toml: networks.ib.share 0.5")):
        run(["check", bench, *flags])
        assert used in capsys.readouterr().out


@pytest.mark.parametrize("command", [["check", "bench.txt"], ["estimate", "--nodes", "2", "--gpus-per-node", "8"]])
def test_a_site_file_that_is_none_is_a_wrong_call(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    table(PAIRS)
    Path("bad.toml").write_text('[constants]\n"nvls.hopper.gbps" = 3\n')
    for file, why in (("bad.toml", "no constant of a site"), ("missing.toml", "No such file"), (".", "directory")):
        assert run([*command, "--site", file]) == 2
        assert why in capsys.readouterr().err


def test_calibrate_refuses_to_fit_from_too_little(capsys: pytest.CaptureFixture[str]) -> None:
    small = table(replace(PAIRS, points=[(1 << 20, 20.0, 20.0)]), "small.txt")
    Path("empty.txt").write_text("nothing\n")
    for given, flags in ((small, FLAGS), ("empty.txt", FLAGS), (table(PAIRS), ()), ("missing.txt", FLAGS)):
        assert run(["estimate", "--calibrate", given, *flags]) == 3
        assert "nothing to fit to" in capsys.readouterr().err
    assert not Path("ncclcheck-site.toml").exists()


def test_calibrate_overwrites_no_other_file(capsys: pytest.CaptureFixture[str]) -> None:
    bench = table(PAIRS)
    before = Path(bench).read_text()
    assert run(["estimate", "--calibrate", bench, *FLAGS, "--site-file", bench]) == 2
    assert "overwrite" in capsys.readouterr().err
    assert Path(bench).read_text() == before
