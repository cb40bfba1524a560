"""The command line: what people start.

``app`` holds the commands, ``show`` turns events and results into text. Every error that Benchtrial
raises on purpose ends in one readable message and the exit code of its class.
"""

import sys

from benchtrial.errors import BenchtrialError


def main() -> None:
    """Run the command line and exit with a documented code."""
    from benchtrial.orchestrator.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        # Ids and texts may hold any character; a console that lacks one must not end the run.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except BenchtrialError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  (the command line's own voice)
        sys.exit(error.exit_code)


__all__ = ["main"]
