"""The commands.

Exit codes: 0 decided or equivalent; 2 bad input; 3 inconclusive by futility, saturated, or
unidentified; 4 the budget or the recording ended first; 5 a judge cannot answer; 6 the ledger
cannot be used; 130 and 143 stopped by Ctrl-C and SIGTERM.
"""

import sys
from enum import StrEnum
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from shutil import copytree
from typing import Annotated

import typer
from rich.console import Console

from benchtrial import __version__
from benchtrial.errors import InputError
from benchtrial.orchestrator.campaign import Campaign, Result, covariates
from benchtrial.orchestrator.cli import show
from benchtrial.orchestrator.cli.table_replay import replay_table
from benchtrial.orchestrator.ledger import EXPORTS, Ledger
from benchtrial.orchestrator.replay import replaying
from benchtrial.orchestrator.sequential import Look
from benchtrial.orchestrator.study import Study, starter

app = typer.Typer(
    help="Decide which model, prompt or method is better when language models are the judges.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TABLES = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".ndjson")


class StudyKind(StrEnum):
    """The two kinds of study."""

    pairs = "pairs"
    batch = "batch"


StudyPath = Annotated[Path, typer.Argument(help="The study file (TOML).", show_default=False)]
LedgerPath = Annotated[Path, typer.Argument(help="The campaign's ledger.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the last line only.")]


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File (or folder, for an example) to write.")],
    kind: Annotated[StudyKind, typer.Option(help="What the study asks.")] = StudyKind.pairs,
    example: Annotated[str | None, typer.Option(help="Lay out a shipped example instead.")] = None,
) -> None:
    """Write a commented study file, or lay out a shipped example.

    Examples: benchtrial init study.toml --kind batch;
    benchtrial init . --example answers
    """
    if example is not None:
        _lay_out(example, path)
        return
    if path.exists():
        raise InputError(f"{path} exists already; choose another name")
    path.write_text(starter(kind.value), encoding="utf-8")
    typer.echo(f"wrote {path}: edit it, then start it with: benchtrial run {path}")


@app.command()
def run(
    study: StudyPath,
    ledger: Annotated[Path | None, typer.Option(help="Default: beside the study file.")] = None,
    as_json: AsJson = False,  # noqa: FBT002  (typer options are keywords on the command line)
    quiet: Quiet = False,  # noqa: FBT002
) -> None:
    """Run a study until it is decided or its budget is spent; run it again to go on.

    Example: benchtrial run study.toml --ledger runs/monday.ledger
    """
    loaded = Study.from_file(study)
    with show.Watcher(_console(silent=as_json or quiet)) as listener:
        path = ledger if ledger is not None else study.with_suffix(".ledger")
        with Campaign.open(loaded, ledger=path, listener=listener) as campaign:
            result = campaign.run()
    _finish(result, as_json=as_json, quiet=quiet)


@app.command()
def replay(
    source: Annotated[Path, typer.Argument(help="A ledger, or a table of verdicts.")],
    target: Annotated[
        str | None, typer.Option(help="For a table: 'best' (default) or 'a,b' for a difference.")
    ] = None,
    looks: Annotated[int, typer.Option(help="For a table: how many looks.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="For a table: order of the prompts.")] = 0,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
) -> None:
    """Decide again, offline, from a ledger or from a table of pairwise verdicts.

    Examples: benchtrial replay study.ledger;
    benchtrial replay verdicts.csv --target best
    """
    if source.name.endswith(TABLES):
        code = replay_table(
            source, target, looks, seed, _console(silent=False), as_json=as_json, quiet=quiet
        )
        raise typer.Exit(code)
    with (
        show.Watcher(_console(silent=as_json or quiet)) as listener,
        replaying(source, listener=listener) as campaign,
    ):
        result = campaign.run()
    _finish(result, as_json=as_json, quiet=quiet)


@app.command()
def status(
    ledger: LedgerPath,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show how far a campaign has come, without touching it.

    Example: benchtrial status study.ledger
    """
    with Ledger.open(ledger, read_only=True) as record:
        result = Result(
            looks=tuple(Look.from_json(text) for text in record.looks()),
            spent=record.spent(),
            fit=None,
            warnings=(),
            missing=record.missing(),
            ledger=ledger,
        )
        study = Study.from_json(record.study_json)
        counts = record.summary()
    if as_json:
        typer.echo(show.result_json(result))
        return
    console = _console(silent=False)
    console.print(
        f"{study.name}: {len(result.looks)} looks; {counts.answered} of {counts.queries} requests"
    )
    console.print(show.looks_table(result.looks))
    for line in show.result_lines(result):
        typer.echo(line)


@app.command()
def export(
    ledger: LedgerPath,
    folder: Annotated[Path, typer.Argument(help="Where the files go.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="'csv' or 'jsonl'.")] = "csv",
) -> None:
    """Write every table of a ledger to files that pandas, R or a spreadsheet can read.

    Example: benchtrial export study.ledger tables/ --format jsonl
    """
    if form not in {"csv", "jsonl"}:
        raise InputError(f"--format {form!r} is not known; use csv or jsonl")
    with Ledger.open(ledger, read_only=True) as record:
        tables = {name: record.export(name) for name in EXPORTS}
        known = covariates(Study.from_json(record.study_json))
        tables |= {"ratings": record.ratings(known), "comparisons": record.comparisons(known)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        path = folder / f"{name}.{form}"
        if form == "csv":
            table.to_csv(path, index=False)
        else:
            table.to_json(path, orient="records", lines=True, force_ascii=False)
        typer.echo(f"{path}: {len(table)} rows")


@app.callback(invoke_without_command=True)
def version(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002
) -> None:
    """Decide which model, prompt or method is better when language models are the judges."""
    if show_version:
        typer.echo(__version__)
        raise typer.Exit


def _lay_out(example: str, folder: Path) -> None:
    shipped = _shipped_examples()
    names = sorted(entry.name for entry in shipped.iterdir() if entry.is_dir())
    if example not in names:
        raise InputError(f"no example is called {example!r}; there are {', '.join(names)}")
    if (folder / example).exists():
        raise InputError(f"{folder / example} exists already; choose another folder")
    with as_file(shipped / example) as source:
        copytree(source, folder / example)
    typer.echo(f"laid out {folder / example}")


def _shipped_examples() -> Traversable:
    """Examples stand inside an installed wheel, and at the root of a checkout."""
    inside = files("benchtrial") / "examples"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[2] / "examples"


def _finish(result: Result, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(show.result_json(result))
    elif quiet:
        typer.echo(str(result))
    else:
        for line in show.result_lines(result):
            typer.echo(line)
    raise typer.Exit(result.exit_code)


def _console(*, silent: bool) -> Console:
    return Console(file=sys.stdout, quiet=silent, soft_wrap=True)
