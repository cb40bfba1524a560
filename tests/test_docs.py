"""The documentation is run: what it shows is what happens.

Every fenced block of ``docs/`` and of the README is taken in order, page by page, in a folder of
its own:

* ``python`` runs, all blocks of a page in one namespace; a ``text`` block after it is its output;
* ``sh`` and ``console`` hold ``benchtrial`` commands, one a line, run through the command's own
  entry point. Their exit code is 0 unless the line ends in ``# exit code N``. ``console`` shows the
  output after its ``$`` line;
* ``toml``, ``csv`` and ``jsonl`` with a title are files of that name; a ``toml`` file is a study
  and must load. Without a title it is part of a study: put into one of the files that ``benchtrial
  init`` writes, it must load;
* ``math`` is for the eye.

In shown output ``...`` stands for anything, and white space does not count. A block that needs a
server or a provider's key comes after ``<!-- not run: why -->``; there are few of those.

The reference is held against the code as well: every key of a study with its default, every
command with its options, every end state and reason.
"""

import contextlib
import doctest
import inspect
import io
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic_core import PydanticUndefined

import benchtrial
from benchtrial.errors import StudyError
from benchtrial.orchestrator import study as studies
from benchtrial.orchestrator.campaign.result import EXIT_CODES
from benchtrial.orchestrator.cli import main
from benchtrial.orchestrator.cli.app import app
from benchtrial.orchestrator.ledger import EXPORTS
from benchtrial.orchestrator.sequential import Rule, State
from benchtrial.orchestrator.study import Study, starter
from benchtrial.orchestrator.study.model import TABLES
from benchtrial.orchestrator.study.template import PLACEHOLDERS

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

# Blocks that nothing runs, over all pages: activating an environment, starting the local server,
# and judges behind a network.
MOST_NOT_RUN = 4
# Shown outputs of which a part is left open: the version.
MOST_LEFT_OPEN = 1

LANGUAGES = {"python", "text", "sh", "console", "toml", "csv", "jsonl", "math"}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?$")
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+) -->")
_EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str
    not_run: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found = []
    why: str | None = None
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    for number, line in lines:
        if fence := _FENCE.match(line):
            content = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                content.append(inner.removeprefix(fence["indent"]) + "\n")
            else:
                raise AssertionError(f"{page.name}:{number}: this block is never closed")
            found.append(
                Block(page, number, fence["language"], fence["title"], "".join(content), why)
            )
            why = None
        elif line.strip():
            note = _NOT_RUN.fullmatch(line.strip())
            why = note["why"] if note else None
    return found


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- running -------------------------------------------------------------------------------------


class Reader:
    """Somebody who does, in one folder, everything that a page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None

    def follow(self, block: Block) -> None:
        if block.language not in {"text", "math"}:
            self.printed = None
        if block.not_run:
            return
        match block.language:
            case "python":
                self._python(block)
            case "text":
                assert self.printed is not None, f"{block.where}: output of no python block"
                agree(block.where, block.text, self.printed)
                self.printed = None
            case "sh" | "console":
                self._commands(block)
            case "toml" if block.title is None:
                check_fragment(block, self.folder)
            case "toml" | "csv" | "jsonl":
                assert block.title, f"{block.where}: no title, so no file name"
                path = self.folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
                if block.language == "toml":
                    Study.from_file(path)

    def _python(self, block: Block) -> None:
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.names)  # noqa: S102  (the documentation is ours)
        self.printed = out.getvalue()

    def _commands(self, block: Block) -> None:
        for line, expected in commands(block):
            code = 0
            if stated := _EXIT_CODE.search(line):
                line, code = line[: stated.start()], int(stated[1])
            line, _, target = line.partition(" > ")
            got, output = run_command(shlex.split(line))
            assert got == code, f"{block.where}: {line}: exit code {got}, not {code}:\n{output}"
            if target:
                Path(target.strip()).write_text(output, encoding="utf-8")
            elif expected:
                agree(block.where, expected, output)


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a shell block with the output that is shown for it."""
    if block.language == "sh":
        for line in block.text.splitlines():
            if line.strip():
                yield line.strip(), ""
        return
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.where}: output before the first command"
    for part in parts[1:]:
        line, _, output = part.partition("\n")
        yield line.strip(), output


def run_command(words: list[str]) -> tuple[int, str]:
    """What the command's entry point does with these words: exit code, and everything printed."""
    assert words[0] == "benchtrial", f"{words[0]}: only benchtrial commands are run"
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    before = sys.argv
    sys.argv = words
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return code, raw.getvalue().decode("utf-8")


def agree(where: str, shown: str, printed: str) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(shown, printed, options)
    assert same, f"{where}: shown is\n{shown}\nbut printed was\n{printed}"


def check_fragment(block: Block, folder: Path) -> None:
    """A part of a study fits into one of the two starter studies."""
    part = tomllib.loads(block.text)
    complaints = []
    for kind in ("pairs", "batch"):
        whole = {**tomllib.loads(starter(kind)), "name": "fragment"}
        for name, value in part.items():
            old = whole.get(name)
            both = isinstance(old, dict) and isinstance(value, dict)
            whole[name] = {**old, **value} if both else value
        path = folder / f"fragment-{kind}.toml"
        path.write_text("".join(f"{k} = {toml(v)}\n" for k, v in whole.items()), encoding="utf-8")
        try:
            Study.from_file(path)
        except StudyError as error:
            complaints.append(f"{kind}: {error}")
        else:
            return
        finally:
            path.unlink()
    raise AssertionError(f"{block.where}: fits into no study:\n" + "\n".join(complaints))


def toml(value: Any) -> str:
    """Write a value as TOML in one line."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    # JSON's strings, numbers and truth values are TOML's, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


README_STUDY = """
name = "readme"
kind = "pairs"
seed = 1
prompts = [{ id = "p1", text = "Why?" }, { id = "p2", text = "How?" }, { id = "p3", text = "So?" }]

[[candidates]]
id = "plain"
responses = { p1 = "Because.", p2 = "Thus.", p3 = "Yes." }

[[candidates]]
id = "wordy"
responses = { p1 = "Just because.", p2 = "Thus, and so.", p3 = "Yes, indeed." }

[[judges]]
id = "simulated"
provider = "simulated"
simulated = { scores = { plain = 0.0, wordy = 0.5 } }

[design]
kind = "balanced-swaps"
repetitions = 4

[stopping]
target = { kind = "difference", a = "plain", b = "wordy" }
rounds = 2

[budget]
tokens = 100_000
"""


README_VERDICTS = """
judge,prompt,first,second,outcome
j,p1,plain,wordy,A
j,p1,wordy,plain,A
j,p2,plain,wordy,A
j,p2,wordy,plain,B
j,p3,plain,wordy,B
j,p3,wordy,plain,A
""".lstrip()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_of_the_page_does_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    found = blocks(page)
    if page == README:
        (tmp_path / "study.toml").write_text(README_STUDY, encoding="utf-8")
        found = [block for block in found if block.language != "sh"]  # they install; see below
    reader = Reader(tmp_path)
    for block in found:
        reader.follow(block)


def test_the_readme_has_two_sh_blocks_of_one_command_each():
    shell = [block for block in blocks(README) if block.language in {"sh", "console"}]
    assert [block.language for block in shell] == ["sh", "sh"]
    assert all(len(block.text.splitlines()) == 1 for block in shell)
    assert "benchtrial replay" in shell[0].text
    assert "pytest" in shell[1].text


def test_few_blocks_are_not_run_and_each_says_why():
    every = [block for page in PAGES for block in blocks(page)]
    assert {block.language for block in every} <= LANGUAGES
    not_run = [block for block in every if block.not_run]
    assert len(not_run) <= MOST_NOT_RUN
    # A comment that stands before no block would hide nothing, but tell the reader otherwise.
    comments = sum(len(_NOT_RUN.findall(page.read_text(encoding="utf-8"))) for page in PAGES)
    assert comments == len(not_run)


def test_hardly_any_shown_output_is_left_open():
    every = [block for page in PAGES for block in blocks(page)]
    shown = [out for one in every if one.language == "console" for _, out in commands(one)]
    shown += [one.text for one in every if one.language == "text"]
    assert sum("..." in output for output in shown) <= MOST_LEFT_OPEN


def test_commands_run_through_the_entry_point_that_is_installed():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"benchtrial": f"{main.__module__}:{main.__name__}"}


# -- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_relative_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


def test_every_page_is_reached_from_the_index():
    seen, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or DOCS not in page.parents:
            continue
        seen.add(page)
        names = (link.partition("#")[0] for link in _LINK.findall(page.read_text("utf-8")))
        waiting += [(page.parent / name).resolve() for name in names if name and ":" not in name]
    assert seen == set(DOCS.rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """The names that headings get on the usual hosts."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}


# -- the reference against the code --------------------------------------------------------------


def sections(page: Path) -> dict[str, str]:
    """The text under each heading of a page, by the heading without its marks."""
    parts = _HEADING.split(page.read_text(encoding="utf-8"))
    return {head.replace("`", "").strip(): body for head, body in zip(parts[1::2], parts[2::2])}  # noqa: B905  (they pair by construction)


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the tables in a text, by what stands in code marks in their first cell."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and (name := re.fullmatch(r"`([^`{]+)`", cells[0])):
            found[name[1]] = cells[1:]
    return found


SPECS = {
    (): Study,
    ("items",): studies.Item,
    ("prompts",): studies.Prompt,
    ("candidates",): studies.Candidate,
    ("criteria",): studies.Criterion,
    ("template",): studies.Template,
    ("template", "turns"): studies.Turn,
    ("answer",): studies.AnswerSpec,
    ("judges",): studies.JudgeSpec,
    ("judges", "price"): studies.PriceSpec,
    ("design",): studies.DesignSpec,
    ("analysis",): studies.AnalysisSpec,
    ("stopping",): studies.StoppingSpec,
    ("stopping", "target"): studies.TargetSpec,
    ("stopping", "first_look"): studies.FirstLook,
    ("budget",): studies.BudgetSpec,
}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: ".".join(path) or "top level")
def test_every_key_of_a_study_is_explained_with_its_default(path):
    heading = ".".join(path) or "Top level"
    section = sections(DOCS / "reference" / "study-file.md")[heading]
    explained = rows(section)
    spec = SPECS[path]
    nested = {inner[-1] for inner in TABLES if inner[:-1] == path and inner}
    for name, field in spec.model_fields.items():
        if path == () and name in nested:
            continue  # a table with a section of its own
        assert name in explained, f"[{heading}] {name} is not explained"
        shown = explained[name][0]
        if field.default is PydanticUndefined:
            assert shown.startswith(("required", "by kind")), f"[{heading}] {name}: {shown}"
        elif isinstance(field.default, bool | int | float | str) and len(str(field.default)) < 30:
            assert shown == f"`{toml(field.default)}`", f"[{heading}] {name}: {shown}"
    assert set(explained) <= set(spec.model_fields) | {"file", "columns"}


def test_every_choice_of_a_key_is_explained():
    text = (DOCS / "reference" / "study-file.md").read_text(encoding="utf-8")
    for spec in SPECS.values():
        for name, field in spec.model_fields.items():
            for choice in choices(field.annotation):
                assert f'"{choice}"' in text, f"{spec.__name__}.{name}: {choice} is not explained"
    for name in {name for names in PLACEHOLDERS.values() for name in names}:
        assert f"`{{{name}}}`" in text


def choices(annotation: Any) -> Iterator[str]:
    for argument in get_args(annotation):
        if isinstance(argument, str):
            yield argument
        else:
            yield from choices(argument)


def test_every_command_and_option_is_explained():
    page = sections(DOCS / "reference" / "commands.md")
    for name, command in typer.main.get_command(app).commands.items():
        section = page[f"benchtrial {name}"]
        explained = rows(section)
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                assert parameter.name.upper() in section, f"{name}: {parameter.name}"
            elif parameter.name != "help":
                key = ", ".join(parameter.opts)
                assert key in explained, f"{name}: {key} is not explained"


def test_every_key_of_the_json_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(README_STUDY, encoding="utf-8")
    (tmp_path / "verdicts.csv").write_text(README_VERDICTS, encoding="utf-8")
    page = sections(DOCS / "reference" / "json.md")
    campaign = named(page["Of a campaign"].split("`status` adds")[0])
    printed = {
        words: json.loads(run_command(["benchtrial", *words.split(), "--json"])[1])
        for words in (
            "run study.toml",
            "status study.ledger",
            "replay study.ledger",
            "replay verdicts.csv",
        )
    }
    run, status, replay, table = printed.values()
    assert set(run) == campaign
    assert set(status) == named(page["Of a campaign"])
    assert set(replay) == campaign | {"agreement"}
    assert set(replay["agreement"]) == {"agrees", "sentence"}
    shared = {"result", "winner", "sentence", "warnings", "looks"}
    assert set(table) == shared | named(page["Of a table of verdicts"])
    looks = page["A look"]
    for look in (run["looks"][0], table["looks"][0]):
        assert set(look) == named(looks)
        (contrast,) = look["contrasts"]
        for key, inner in {"contrasts": contrast, "decision": look["decision"]}.items():
            (row,) = [line for line in looks.splitlines() if line.startswith(f"| `{key}`")]
            assert set(inner) == set(re.findall(r"`(\w+)`", row)) - {key}


def named(text: str) -> set[str]:
    """What stands in code marks in the first cells of the tables in a text."""
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_end_state_rule_and_table_is_explained():
    stop = (DOCS / "explanation" / "when-to-trust-a-stop.md").read_text(encoding="utf-8")
    codes = (DOCS / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    for state in set(get_args(State)) - {"continue"}:
        assert f"`{state}`" in stop
        assert re.search(rf"^\| {EXIT_CODES[state]} \|.*`{state}`", codes, re.MULTILINE), state
    assert all(f"`{rule}`" in stop for rule in get_args(Rule))
    tables = sections(DOCS / "reference" / "tables.md")
    assert all(f"{name}" in tables for name in (*EXPORTS, "ratings", "comparisons"))


def test_every_public_name_is_in_the_api_reference():
    text = (DOCS / "reference" / "python-api.md").read_text(encoding="utf-8")
    for room in ("designs", "models", "sequential"):
        missing = [n for n in getattr(benchtrial, room).__all__ if f"`{n}" not in text]
        assert not missing, f"{room}: {missing}"
    assert all(f"`{name}" in text for name in benchtrial.__all__)


@pytest.mark.parametrize("room", ["designs", "models", "sequential"])
def test_signatures_in_the_api_reference_are_those_of_the_code(room):
    section = sections(DOCS / "reference" / "python-api.md")[room]
    module = getattr(benchtrial, room)
    checked = 0
    for name, arguments in re.findall(r"`(\w+)\(([^`]*)\)`", section):
        if name not in module.__all__:
            continue
        real = inspect.signature(getattr(module, name)).parameters
        written = re.sub(r",? *…", "", arguments)
        shown = inspect.signature(eval(f"lambda {written}: None")).parameters  # noqa: S307  (ours)
        for parameter in shown.values():
            assert parameter.name in real, f"{name}: {parameter.name}"
            if parameter.default is not parameter.empty:
                assert parameter.default == real[parameter.name].default, f"{name}: {parameter}"
        checked += 1
    assert checked >= 5
