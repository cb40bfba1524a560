"""The command line: what people start.

``app`` says which commands and options there are, and imports nothing else, so that help and
errors in options come at once. What a command does is in a file of its own: ``starting`` (init),
``campaigns`` (run, status, replay of a ledger), ``table_replay`` (replay of a table),
``exporting``. ``show`` turns events and results into lines of text, ``facts`` into JSON.

Every error that Benchtrial raises on purpose ends in one readable message and the exit code of its
class; any other is a fault of Benchtrial and shows where it happened.
"""

import io
import sys

from benchtrial.errors import BenchtrialError, InputError, Interrupted


def main() -> None:
    """Run the command line and exit with a documented code."""
    for stream in (sys.stdout, sys.stderr):
        # Ids and texts may hold any character; a console that lacks one must not end the run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from benchtrial.orchestrator.cli.app import app

        app()
    except KeyboardInterrupt:
        _end("stopped", Interrupted.exit_code)
    except Interrupted as error:
        _end(str(error), error.exit_code)
    except BenchtrialError as error:
        _end(f"error: {error}", error.exit_code)
    except OSError as error:
        # A path that the operating system refuses: too long, not permitted, a broken link.
        _end(
            f"error: {error.filename or 'a file'}: {error.strerror or error}", InputError.exit_code
        )


def _end(message: str, code: int) -> None:
    print(message, file=sys.stderr)  # noqa: T201  (the command line's own voice)
    sys.exit(code)


__all__ = ["main"]
