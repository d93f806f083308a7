"""The `whyrank` command and what all of its commands share. Heavy modules are imported inside commands only."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from whyrank.cli.labels import LabelledCommand, LabelledGroup
from whyrank.errors import DataError, ParameterError, WhyrankError
from whyrank.version import __version__

UsageError: Any = typer.BadParameter.__base__  # which typer does not export itself

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from whyrank.data.problems import Problems
    from whyrank.data.triplets import Triplets
    from whyrank.lab.ray.session import Cluster

app = typer.Typer(
    name="whyrank",
    cls=LabelledGroup,
    help="Rank the reasons, not only the items: explanations for recommendations, learned, ranked and measured.",
    epilog="Start with: whyrank demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

# -- options that several commands share -------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Data = Annotated[Path, typer.Argument(help="A data file, an EXTRA folder, a mined folder or a split folder.")]
SplitFolder = Annotated[
    Path, typer.Argument(help="A split folder (see `whyrank split`) or an EXTRA folder with its index.")
]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that `whyrank fit` wrote.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Column names of the file: user=reviewerID,item=asin. Numbers are for files without a header: user=0."
    ),
]
OnErrorOption = Annotated[
    str, typer.Option("--on-error", help="raise: stop at the first bad row. skip: count and report.")
]
RatingRange = Annotated[
    str | None,
    typer.Option(help="The scale of ratings, LOW:HIGH; recognized by default. Ratings outside it count as unknown."),
]
EXPANSION = 100.0  # as in whyrank.data.compressed, which would take long to import here
MaxExpansion = Annotated[
    float, typer.Option(help="How many times larger a compressed file may become; 64 MB are always allowed.")
]
Trim = Annotated[bool, typer.Option("--trim", help="Remove blanks around ids.")]
Lower = Annotated[bool, typer.Option("--lower", help="Put explanations in lower case, so that Rock and rock are one.")]
Seed = Annotated[int, typer.Option(help="The seed of all random choices.")]
Threads = Annotated[
    int | None, typer.Option(help="Threads; by default all cores. They never change the result.", min=1)
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray", help="Work on a Ray cluster: its address (host:port), or local. The result is the same."),
]
Number = Annotated[int, typer.Option("--number", help="Which split of the folder.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"whyrank {__version__}")
        raise typer.Exit


def command(name: str, example: str, group: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command; its help ends with an example that runs."""
    return group.command(name, cls=LabelledCommand, epilog=f"Example: `{example}`")


# What a terminal would obey instead of showing: control characters, marks that change the direction of writing; and
# halves of characters, which cannot be written.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """A text that a terminal only shows, whoever wrote it; what it would obey is written as Python writes it."""
    return UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def console(*, stderr: bool = False) -> Console:
    """Where people read; every text, cell and title goes through here, is made safe, and is never read as markup."""
    from rich.console import Console
    from rich.text import Text

    class SafeConsole(Console):
        def render_str(self, text: str, **settings: Any) -> Text:
            return super().render_str(safe(text), **settings)

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 80
    return SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def print_json(value: object) -> None:
    """One JSON object on standard output; numbers that JSON does not know become null."""
    document = json.dumps(_plain(value), ensure_ascii=False)
    typer.echo(UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", document))


def print_text(shown: object) -> None:
    """A text, without markup and in the lines that it has, or a table, on standard output; made safe."""
    if isinstance(shown, str):
        typer.echo(safe(shown))
    else:
        console().print(shown)


def note(text: str) -> None:
    """A remark for people, on standard error, so that pipes stay clean; lines end after a word."""
    err = console(stderr=True)
    err.print(text, style="dim", soft_wrap=not err.is_terminal)


def counted(triplets: Triplets) -> str:
    """How much data there is, in words."""
    from whyrank.data.describe import in_words

    return in_words(triplets)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Progress]:
    """A progress bar on standard error; where that is not a terminal, a line every ten seconds."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=14),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
    )
    from whyrank.cli.lines import Lines

    err = console(stderr=True)
    drawn = Progress(*columns, console=err, disable=quiet, transient=True)
    with drawn if quiet or err.is_terminal else Lines(err) as bar:
        yield bar


@contextmanager
def told_if_interrupted(how_to_go_on: Callable[[], str]) -> Iterator[None]:
    """Say after Ctrl-C what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted; {how_to_go_on()}")
        raise


@contextmanager
def workers_at(address: str | None) -> Iterator[Cluster | None]:
    """A Ray cluster, or nobody."""
    if address is None:
        yield None
        return
    from whyrank.lab.ray.session import connect

    with connect(address) as cluster:
        yield cluster


def warn_first_run() -> None:
    """Say so when kernels will have to be compiled, which takes some seconds once."""
    from whyrank.compile import first_run

    if sys.stderr.isatty() and first_run():
        note("compiling kernels: once after an installation, some ten seconds")


class Notes(logging.Handler):
    """Warnings of the library as remarks."""

    def emit(self, record: logging.LogRecord) -> None:
        note(f"warning: {record.getMessage()}")


def new_problems(on_error: str) -> Problems:
    from whyrank.data.problems import Problems

    return Problems(on_error)  # type: ignore[arg-type]


def report_problems(problems: Problems) -> None:
    if problems.skipped:
        note(problems.summary())
        for examples in problems.examples.values():
            note(f"  {examples[0]}")


def parse_columns(text: str | None) -> dict[str, str | int] | None:
    """`user=reviewerID,item=1` as a mapping."""
    if not text:
        return None
    return {
        name: int(value) if value.isdigit() else value
        for name, value in parse_pairs(text.split(","), "--columns").items()
    }


def parse_range(text: str | None) -> tuple[float, float] | None:
    """`1:5` as two numbers."""
    if text is None:
        return None
    try:
        low, high = (float(each) for each in text.split(":"))
    except ValueError:
        raise ParameterError(f"--rating-range takes LOW:HIGH, 1:5 for example, not {text!r}") from None
    return low, high


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Texts `name=value` as a mapping."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ParameterError(f"{option} takes name=value, not {text!r}")
        pairs[name.strip()] = value.strip()
    return pairs


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    import whyrank.cli.commands  # noqa: F401 - registers the commands

    log = logging.getLogger("whyrank")
    if not any(isinstance(handler, Notes) for handler in log.handlers):
        log.addHandler(Notes())
    try:
        code = app(args=arguments, standalone_mode=False, prog_name="whyrank") or 0
    except WhyrankError as error:
        skip = "; --on-error skip leaves such rows out" if isinstance(error, DataError) and error.skippable else ""
        _fail(f"{error}{skip}")
        code = 2
    except UsageError as error:
        _show_usage(error)
        code = 2
    except typer.Abort:
        code = 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
        code = 2
    sys.exit(code)


def _show_usage(error: Any) -> None:
    """An option that does not exist or fit, in one line; a command without arguments shows its help."""
    message = error.format_message()
    if "\n" in message:
        error.show()
        return
    name = error.ctx.command_path if error.ctx else "whyrank"
    _fail(f"{message[:1].lower()}{message[1:].rstrip('.')}; see {name} --help")


def _fail(message: str) -> None:
    line = spoken(" ".join(message.split("\n")))
    typer.echo(typer.style("error: ", fg="red", bold=True) + safe(line), err=True)


def spoken(message: str) -> str:
    """What the library says in Python, in the words of the command line."""
    return re.sub(r"columns=\{'(\w+)': \.\.\.\}", r"--columns \1=NAME", message)


def _plain(value: Any) -> Any:
    """Numpy scalars, dataclasses' dicts and infinities as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
