"""Downloads a source distribution from the package indexes that pip is set up for. Nothing is built or run.

Which indexes those are is asked of pip itself, whose configuration lies in several files and in the environment.
"""

import ast
import contextlib
import hashlib
import importlib.util
import logging
import os
import queue
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tdmpc2_lean.errors import UserError

# How long the first contact may take, in seconds; all indexes are asked at once.
CONTACT_SECONDS = 12

# pip's sections from weak to strong: a setting in one replaces the same setting in those before.
SECTIONS = ("global", "install", "download", ":env:")


class NotOnIndex(UserError):
    """No index that could be reached has the file."""


def pip_settings() -> dict[str, str]:
    """pip's settings in effect by their long names, such as 'extra-index-url'.

    Without pip in this environment, those in environment variables (PIP_INDEX_URL), with a note on stderr.
    """
    if importlib.util.find_spec("pip") is None:
        print("note: there is no pip here to ask for its configuration files; PIP_* variables count", file=sys.stderr)
        prefix = "PIP_"
        return {
            name.removeprefix(prefix).lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith(prefix) and value
        }
    ran = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise UserError(
            f"pip cannot read its configuration: {(ran.stderr.strip().splitlines() or ['no reason given'])[-1]}",
            "mend what `pip config list` complains about",
        )
    found: dict[str, dict[str, str]] = {}
    for line in ran.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        with contextlib.suppress(ValueError, SyntaxError):
            found.setdefault(section, {})[name] = str(ast.literal_eval(value))
    return {name: value for section in SECTIONS for name, value in found.get(section, {}).items() if value}


def sources(settings: dict[str, str]) -> list[tuple[str, str]]:
    """(kind, address) of all places that pip would look in; kind is 'index_urls' or 'find_links'."""
    from unearth import PackageFinder

    links = [
        ("find_links", place)
        for place in settings.get("find-links", "").split()
        if "://" in place or os.path.exists(place)
    ]
    if settings.get("no-index", "").lower() in ("1", "y", "yes", "true", "t", "on"):
        return links
    # A finder that is told of no index has the default one, as pip has.
    first = settings.get("index-url") or PackageFinder().sources[0]["url"]
    return [*links, *(("index_urls", url) for url in (first, *settings.get("extra-index-url", "").split()))]


def session(settings: dict[str, str], places: list[tuple[str, str]]):
    """An HTTP client with pip's certificates, proxy, trusted hosts and passwords. It asks the user nothing."""
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers.sync import PyPIClient

    words = {}
    if settings.get("cert"):
        words["verify"] = ssl.create_default_context(cafile=settings["cert"])
    if settings.get("client-cert"):
        words["cert"] = settings["client-cert"]
    if settings.get("proxy"):
        words["proxy"] = settings["proxy"]
    client = PyPIClient(
        trusted_hosts=settings.get("trusted-host", "").split(), timeout=CONTACT_SECONDS, follow_redirects=True, **words
    )
    indexes = [url for kind, url in places if kind == "index_urls"]
    client.auth = MultiDomainBasicAuth(prompting=False, index_urls=indexes)
    return client


def download(project: str, version: str, sha256: str, to: Path, seconds: float | None = None) -> Path:
    """The source distribution with that hash, as a file in the folder `to`.

    seconds: how long all may take until the indexes have answered (default: CONTACT_SECONDS); their answers are
        waited for two seconds at least. NotOnIndex says what each of them answered.
    """
    if importlib.util.find_spec("unearth") is None:
        raise UserError(
            "looking for a release on a package index needs the package unearth, which is not installed.",
            "pip install 'tdmpc2_lean[dreamer]'",
        )
    seconds = seconds or CONTACT_SECONDS
    deadline = time.monotonic() + seconds
    settings = pip_settings()
    places = sources(settings)
    if not places:
        raise NotOnIndex("pip is set up with no index to look in (no-index).", "pip config list")
    answers: queue.Queue = queue.Queue()
    troubles = []
    deadline = max(deadline, time.monotonic() + 2)
    with session(settings, places) as client, warnings_of("unearth") as heard:
        for kind, where in places:
            words = (client, kind, where, f"{project}=={version}", heard, answers)
            # A lookup of a dead name cannot be ended: its thread must not keep the process alive.
            threading.Thread(target=ask, args=words, daemon=True).start()
        for _ in places:
            try:
                where, links, trouble = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                troubles.append(f"no answer within {seconds:g} seconds")
                break
            for link in links:
                try:
                    content = link.file_path.read_bytes() if link.is_file else bytes_at(client, link)
                except Exception as error:  # whatever it is, another index may still have the file
                    trouble = f"{link.filename}: {one_line(error)}"
                    continue
                found = hashlib.sha256(content).hexdigest()
                if found == sha256:
                    file = to / f"{project}-{version}.tar.gz"
                    file.write_bytes(content)
                    return file
                trouble = f"{link.filename} has the sha256 hash {found} and not {sha256}: it is another file"
            troubles.append(f"{where}: {trouble}")
    raise NotOnIndex(
        f"{project} {version} cannot be downloaded from the package indexes that pip is set up for:\n"
        + "\n".join(f"    {trouble}" for trouble in troubles),
        "`pip config list` shows the indexes",
    )


def bytes_at(client, link) -> bytes:
    """The file that a link leads to."""
    answer = client.get(link.url_without_fragment)
    answer.raise_for_status()
    return answer.content


def ask(client, kind: str, where: str, requirement: str, heard: list[str], answers: queue.Queue) -> None:
    """Put (address, links to source distributions, what went wrong) of one index into the queue."""
    from unearth import Link, PackageFinder

    shown = Link(where).redacted if "://" in where else where
    try:
        finder = PackageFinder(client, **{kind: [where]}, ignore_compatibility=True, no_binary=[":all:"])
        found = [package.link for package in finder.find_matches(requirement, allow_yanked=True)]
        said = [words for words in heard if shown in words]
        answers.put((shown, found, said[-1] if said else f"has no source distribution of {requirement}"))
    except Exception as error:  # whatever it is, another index may still have the file
        answers.put((shown, [], one_line(error)))


@contextlib.contextmanager
def warnings_of(name: str) -> Iterator[list[str]]:
    """The warnings that a logger gives in the block, instead of their being printed."""
    heard: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield heard
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def one_line(error: Exception) -> str:
    """An exception's words without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
