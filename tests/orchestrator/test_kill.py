"""A live campaign against a server that counts: killed, interrupted, resumed, replayed.

The judge is a real HTTP server on the loopback interface, the campaign a real process. The server's
verdict is a function of the question, so that an uninterrupted run is the truth to compare with.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchtrial.orchestrator.ledger import Ledger

CONCURRENCY = 4
BUDGET = 2_000_000
STUDY = """
name = "killed"
kind = "pairs"
seed = 3
[[judges]]
id = "loopback"
provider = "openai-compatible"
model = "counter"
base_url = "{url}"
price = "free"
concurrency = {concurrency}
max_output_tokens = 20
timeout_s = 10
[design]
kind = "balanced-swaps"
repetitions = 2
[analysis]
terms = ["position"]
[stopping]
target = {{ kind = "best" }}
rounds = 5
rule = "obrien-fleming"
[budget]
tokens = {budget}
"""
CANDIDATES = ("alpha", "beta", "gamma")


class CountingJudge(ThreadingHTTPServer):
    """Counts what it serves; prefers earlier names and the first slot, both with noise."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served: Counter[str] = Counter()
        self.tokens = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingJudge

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        question = json.loads(body)["messages"][-1]["content"]
        time.sleep(0.01)
        shown = sorted(CANDIDATES, key=lambda name: question.find(f"by {name}"))[-2:]
        digest = hashlib.sha256(question.encode()).digest()
        leaning = 0.55 + 0.15 * (CANDIDATES.index(shown[1]) - CANDIDATES.index(shown[0]))
        verdict = "A" if digest[0] / 256 < leaning else "B"
        usage = {"prompt_tokens": len(question) // 4, "completion_tokens": 6}
        reply = {
            "model": "counter",
            "choices": [
                {
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": f"[[{verdict}]]"},
                }
            ],
            "usage": {**usage, "total_tokens": sum(usage.values())},
        }
        data = json.dumps(reply).encode()
        with self.server.lock:
            self.server.served[hashlib.sha256(body).hexdigest()] += 1
            self.server.tokens += sum(usage.values())
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            pass  # the client was killed

    def log_message(self, *unused: object) -> None:
        pass


@pytest.fixture
def judge() -> Iterator[CountingJudge]:
    server = CountingJudge()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def study(judge: CountingJudge, tmp_path: Path) -> Path:
    prompts = [{"id": f"p{n}", "text": f"question {n}"} for n in range(30)]
    tables = "".join(
        f'[[prompts]]\nid = "{one["id"]}"\ntext = "{one["text"]}"\n' for one in prompts
    )
    for name in CANDIDATES:
        tables += f'[[candidates]]\nid = "{name}"\n[candidates.responses]\n'
        tables += "".join(f'{one["id"]} = "answer by {name}"\n' for one in prompts)
    path = tmp_path / "study.toml"
    path.write_text(
        STUDY.format(url=judge.url, concurrency=CONCURRENCY, budget=BUDGET) + tables,
        encoding="utf-8",
    )
    return path


def benchtrial(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchtrial", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"NO_COLOR": "1"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_until_served(judge: CountingJudge, number: int, process: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + 60
    while sum(judge.served.values()) < number and process.poll() is None:
        assert time.monotonic() < give_up, "the campaign asks nothing"
        time.sleep(0.002)


def recorded_looks(path: Path) -> list[str]:
    with Ledger.open(path, read_only=True) as ledger:
        return list(ledger.looks())


def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(judge, study, tmp_path):
    whole, cut = tmp_path / "whole.ledger", tmp_path / "cut.ledger"
    code, out, err = finish(benchtrial("run", study, "--ledger", whole))
    assert code in {0, 3, 4}, err
    expected = out.splitlines()[-1]
    assert expected.startswith("result: ")

    judge.served.clear()
    judge.tokens = kills = 0
    for moment in (1, 23, 71, 160, 161):
        process = benchtrial("run", study, "--ledger", cut)
        wait_until_served(judge, moment, process)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        finish(process)
    assert kills >= 3
    code, out, err = finish(benchtrial("run", study, "--ledger", cut))
    assert out.splitlines()[-1].split(":")[1] == expected.split(":")[1], err

    with Ledger.open(cut, read_only=True) as ledger:
        counts = ledger.summary()
        spent = ledger.spent()
        comparisons = ledger.comparisons()
    assert counts.duplicates == 0
    assert counts.answered == len(comparisons)  # every query counts once
    assert not comparisons.duplicated(["judge", "prompt", "first", "second", "repetition"]).any()
    lost = sum(judge.served.values()) - counts.replies
    assert 0 <= lost <= CONCURRENCY * kills  # served but not committed: at most those in flight
    assert max(judge.served.values()) <= 1 + kills
    assert judge.tokens <= spent.tokens <= BUDGET  # what was lost stays counted

    code, out, err = finish(benchtrial("replay", cut, "--quiet"))
    assert out.strip().split(":")[1] == expected.split(":")[1], err
    # The lost attempts are far from filling the budget, so the clock of the looks is the rounds'.
    assert recorded_looks(cut) == recorded_looks(whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_soon_keeps_everything_and_says_how_to_go_on(
    judge, study, tmp_path, number, code
):
    ledger = tmp_path / "a.ledger"
    process = benchtrial("run", study, "--ledger", ledger)
    wait_until_served(judge, 20, process)
    began = time.monotonic()
    process.send_signal(number)
    returned, _, err = finish(process)
    assert returned == code
    assert time.monotonic() - began < 8
    assert "Run the same command again" in err
    assert "Traceback" not in err
    with Ledger.open(ledger, read_only=True) as record:
        counts = record.summary()
    assert counts.replies == sum(judge.served.values())  # those in flight were waited for
    assert counts.unknown == 0


def test_a_second_run_of_the_same_campaign_is_refused(judge, study, tmp_path):
    ledger = tmp_path / "a.ledger"
    process = benchtrial("run", study, "--ledger", ledger)
    wait_until_served(judge, 5, process)
    code, _, err = finish(benchtrial("run", study, "--ledger", ledger))
    assert code == 6
    assert str(process.pid) in err
    code, _, err = finish(process)
    assert code in {0, 3, 4}, err
