"""The commands and their options.

Exit codes: 0 decided or equivalent; 2 bad input; 3 inconclusive by futility, saturated, or
unidentified; 4 the budget or the recording ended first; 5 a judge cannot answer; 6 the ledger
cannot be used; 130 and 143 stopped by Ctrl-C and SIGTERM.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from benchtrial import __version__
from benchtrial.errors import Interrupted


class _Commands(TyperGroup):
    """Commands that end like every other on Ctrl-C, and not with a code of typer's choice."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("stopped") from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class StudyKind(StrEnum):
    """The two kinds of study."""

    pairs = "pairs"
    batch = "batch"


class TableFormat(StrEnum):
    """The forms in which tables are written."""

    csv = "csv"
    jsonl = "jsonl"


StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", help="The study file (TOML).", show_default=False)
]
LedgerPath = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="The campaign's ledger.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the last line only.")]


@app.callback(invoke_without_command=True)
def version(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002  (typer options are keywords on the command line)
) -> None:
    """Decide which model, prompt or method is better when language models are the judges."""
    if show_version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def init(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="File to write, or folder for an example.", show_default=False
        ),
    ],
    kind: Annotated[StudyKind, typer.Option(help="What the study asks.")] = StudyKind.pairs,
    example: Annotated[
        str | None, typer.Option(help="Copy this shipped example into the folder PATH instead.")
    ] = None,
) -> None:
    """Write a commented study file, or lay out a shipped example. Nothing is overwritten.

    Examples: benchtrial init study.toml --kind batch;
    benchtrial init . --example answer_styles
    """
    from benchtrial.orchestrator.cli import starting

    if example is not None:
        typer.echo(starting.lay_out(example, path))
    else:
        typer.echo(starting.write_study(path, kind.value))


@app.command()
def run(
    study: StudyPath,
    ledger: Annotated[Path | None, typer.Option(help="Default: beside the study file.")] = None,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
) -> None:
    """Run a study until it is decided or its budget is spent; run it again to go on.

    Example: benchtrial run study.toml --ledger runs/monday.ledger
    """
    from benchtrial.orchestrator.cli import campaigns, show

    raise typer.Exit(campaigns.run(study, ledger, show.voice(as_json=as_json, quiet=quiet)))


@app.command()
def replay(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A ledger, or a table of verdicts.", show_default=False
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="For a table: 'best' (default), or 'a,b' for a difference.")
    ] = None,
    looks: Annotated[
        int | None, typer.Option(help="For a table: how many looks (default 10).", min=1)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For a table: order of its prompts (default 0).", min=0)
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="For a table: NAME=COLUMN if a column has another name. Repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="For a table: COLUMN=VALUE that rows must have. Repeatable."),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
) -> None:
    """Decide again, offline, from a ledger or from a table of pairwise verdicts (CSV, JSONL).

    Examples: benchtrial replay study.ledger;
    benchtrial replay verdicts.csv --target new,old --column outcome=vote
    """
    from benchtrial.orchestrator.cli import campaigns, show, table_replay

    voice = show.voice(as_json=as_json, quiet=quiet)
    options = table_replay.Options(target, looks, seed, tuple(column or ()), tuple(where or ()))
    if table_replay.is_table(source):
        raise typer.Exit(table_replay.replay_table(source, options, voice))
    options.require_none(source)
    raise typer.Exit(campaigns.replay(source, voice))


@app.command()
def status(
    ledger: LedgerPath,
    as_json: AsJson = False,  # noqa: FBT002
    quiet: Quiet = False,  # noqa: FBT002
) -> None:
    """Show how far a campaign has come, without touching it. It may be running.

    Example: benchtrial status study.ledger
    """
    from benchtrial.orchestrator.cli import campaigns, show

    campaigns.status(ledger, show.voice(as_json=as_json, quiet=quiet))


@app.command()
def export(
    ledger: LedgerPath,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the files go.", show_default=False)
    ],
    form: Annotated[
        TableFormat, typer.Option("--format", help="How tables are written.")
    ] = TableFormat.csv,
) -> None:
    """Write every table of a ledger to files that pandas, R or a spreadsheet can read.

    Example: benchtrial export study.ledger tables/ --format jsonl
    """
    from benchtrial.orchestrator.cli import exporting

    for line in exporting.export(ledger, folder, form.value):
        typer.echo(line)
