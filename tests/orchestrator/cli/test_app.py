"""Help and options come at once; signals and faults end with the codes of the documentation."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from benchtrial import __version__

SOURCE = Path(__file__).parents[3] / "src"
COMMANDS = ("init", "run", "replay", "status", "export")
HEAVY = ("numpy", "pandas", "scipy", "sqlalchemy", "httpx", "tenacity")
# Seconds of processor time; on a quiet machine that is the time it takes. Measured: 0.03 and 0.2.
IMPORT_S, HELP_S = 0.3, 0.5


def test_version_and_help(command) -> None:
    assert command("--version").out == f"{__version__}\n"
    assert all(name in command("--help").out for name in COMMANDS)
    for name in COMMANDS:
        ended = command(name, "-h")
        assert ended.code == 0
        assert "Example" in ended.out
        assert "benchtrial " + name in ended.out
        assert max(map(len, ended.out.splitlines())) <= 80


def test_no_arguments_show_the_help(command) -> None:
    assert "Usage" in command().out


def processor_seconds(*arguments: str) -> float:
    """Best of three: the time that it takes, whatever else the machine does."""
    seconds = []
    for _ in range(3):
        before = os.times()
        subprocess.run(
            [sys.executable, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        after = os.times()
        seconds.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    return min(seconds)


def test_import_and_help_are_quick() -> None:
    assert processor_seconds("-c", "import benchtrial") < IMPORT_S
    assert processor_seconds("-m", "benchtrial", "--help") < HELP_S


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["run", "--help"], ["run", "--unknown"], ["init", "s.toml"]],
)
def test_heavy_libraries_are_imported_by_the_commands_that_need_them(
    words: list[str], tmp_path: Path
) -> None:
    program = textwrap.dedent(
        f"""
        import sys
        from benchtrial.orchestrator.cli import main
        sys.argv = ["benchtrial", *{words!r}]
        try:
            main()
        except SystemExit:
            pass
        print("imported:", *[name for name in {HEAVY!r} if name in sys.modules])
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    imported = set(ended.stdout.splitlines()[-1].removeprefix("imported:").split())
    # A study's starter stands beside the study, which knows the designs.
    assert imported <= ({"numpy", "pandas"} if words[0] == "init" else set())


def test_ctrl_c_outside_a_run_is_130(command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*unused: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("benchtrial.orchestrator.importers.source.files.read_rows", interrupt)
    Path("v.csv").write_text("judge\n", encoding="utf-8")
    ended = command("replay", "v.csv")
    assert (ended.code, ended.err) == (130, "stopped\n")


def test_a_signal_during_a_run_keeps_everything_and_says_how_to_go_on(folder, command) -> None:
    text = (folder / "study.toml").read_text(encoding="utf-8")
    slow = text.replace("repetitions = 2", "repetitions = 30").replace("= 400", "= 100_000")
    slow = slow.replace("rounds = 4", "rounds = 60\nrope = 0\nfutility = false")
    slow = slow.replace('"007" = 1.2', '"007" = 0.0')
    (folder / "study.toml").write_text(slow, encoding="utf-8")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with subprocess.Popen(
            [sys.executable, "-m", "benchtrial", "run", "study.toml"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"},
        ) as process:
            ledger = folder / "study.ledger"
            while not (ledger.exists() and ledger.with_name("study.ledger-wal").exists()):
                assert process.poll() is None
                time.sleep(0.01)
            time.sleep(0.5)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert process.returncode == code
        assert "Run the same command again to go on" in err
        assert "Traceback" not in err
    assert command("status", "study.ledger", "-q").out.startswith("result: continue")


def test_a_fault_of_our_own_is_not_dressed_up(command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*unused: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("benchtrial.orchestrator.cli.starting.starter", fail)
    with pytest.raises(ZeroDivisionError):
        command("init", "new.toml")
