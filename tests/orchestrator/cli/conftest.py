"""Start the command line: inside this process, which is quick, or as people do."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchtrial.orchestrator.campaign import Campaign
from benchtrial.orchestrator.cli import main
from benchtrial.orchestrator.study import Study

SOURCE = Path(__file__).parents[3] / "src"

STUDY = """\
name = "small"
kind = "pairs"
seed = 3

[[judges]]
id = "judge"
provider = "simulated"
simulated = { scores = { "007" = 1.2, "naïve, ok" = 0.0 }, sensitivity = 1.5, position = 0.4 }

[analysis]
terms = ["position"]

[design]
kind = "balanced-swaps"
pairs = "all"
repetitions = 2

[stopping]
target = { kind = "difference", a = "007", b = "naïve, ok" }
rounds = 4

[budget]
requests = 400

[prompts]
file = "prompts.csv"

[responses]
file = "responses.csv"
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.out.splitlines()[-1]


Command = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small study in ``study.toml``."""
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of the small study's run, which decides at its second look or later."""
    folder = tmp_path_factory.mktemp("recorded")
    write_study(folder)
    path = folder / "study.ledger"
    with Campaign.open(Study.from_file(folder / "study.toml"), ledger=path) as campaign:
        assert campaign.run().state == "decided"
    return path


@pytest.fixture
def command(folder: Path) -> Command:
    """Run a command through its entry point, in this process; what is a fault here, raises."""

    def run(*words: object) -> Ended:
        raw, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        before = sys.argv
        sys.argv = ["benchtrial", *map(str, words)]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.argv = before
        return Ended(code, raw.getvalue().decode("utf-8"), err.getvalue())

    return run


@pytest.fixture
def shell(folder: Path) -> Command:
    """Run a command in a process of its own, as people do."""

    def run(*words: object, env: Mapping[str, str] | None = None) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "benchtrial", *map(str, words)],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
            check=False,
        )
        return Ended(
            ended.returncode,
            ended.stdout.decode("utf-8", "surrogateescape"),
            ended.stderr.decode("utf-8", "surrogateescape"),
        )

    return run


def write_study(folder: Path) -> None:
    prompts = [f"p{n}" for n in range(30)]
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "prompts.csv").write_text(
        "id,text\n" + "".join(f"{prompt},北京 {prompt}\n" for prompt in prompts), encoding="utf-8"
    )
    rows = [
        f'{name},{prompt},"answer {prompt}, ""quoted"""\n'
        for name in ("007", '"naïve, ok"')
        for prompt in prompts
    ]
    (folder / "responses.csv").write_text(
        "candidate,prompt,text\n" + "".join(rows), encoding="utf-8"
    )
