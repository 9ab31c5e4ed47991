"""git commits and trees made beside a checkout: its objects can be read, nothing of it is written.

`export` builds its commits here and `compare` reads trees here. New objects and the index live in a folder of
their own, which goes away afterwards.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tdmpc2_lean.errors import UserError, quoted
from tdmpc2_lean.upstreams import git
from tdmpc2_lean.upstreams.applied import git_text


class Plumbing:
    """git in a checkout, with an index and an object folder of its own."""

    def __init__(self, root: Path, folder: Path):
        self.root = root
        self.folder = folder
        self.objects = Path(git_text(root, "rev-parse", "--git-path", "objects"))
        if not self.objects.is_absolute():
            self.objects = root / self.objects
        (folder / "objects").mkdir()
        self.environment = {
            "GIT_INDEX_FILE": str(folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{self.objects}"'
            if ":" in str(self.objects)
            else str(self.objects),
        }

    def run(self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        """What git printed. UserError with git's complaint if it failed."""
        try:
            more = self.environment | dict(environment or {})
            return git.run(*words, where=self.root, stdin=stdin, extra_environment=more)
        except git.GitFailed as error:
            raise UserError(
                f"git {words[0]} does not work in {self.root}: {error}",
                f"see what `git -C {quoted(self.root)} status` says",
            ) from None

    def text(self, *words: str, stdin: bytes = b"") -> str:
        return self.run(*words, stdin=stdin).decode("utf-8", "surrogateescape").rstrip("\n")

    def commit(self, name: str) -> str:
        """The full hash that a commit's name means. UserError if it means none."""
        found = git.commit_named(self.root, name)
        if found is None:
            raise UserError(
                f"{self.root} has no commit {name!r}.", f"`git -C {quoted(self.root)} log` shows those it has"
            )
        return found

    def tree_with(self, parent: str, files: Mapping[str, bytes]) -> str:
        """The tree of `parent` with these files' bytes in place; new files are plain ones."""
        self.run("read-tree", parent)
        rows = []
        modes = {path: mode for path, (mode, _) in self.entries(parent, list(files)).items()}
        for path, data in files.items():
            blob = self.text("hash-object", "-w", "--no-filters", "--stdin", stdin=data)
            rows.append(f"{modes.get(path, '100644')} {blob}\t{path}\0".encode())
        self.run("update-index", "-z", "--index-info", stdin=b"".join(rows))
        return self.text("write-tree")

    def entries(self, commit: str, paths: list[str] | None = None) -> dict[str, tuple[str, str]]:
        """path -> (mode, blob) of a commit's files, or of those named."""
        if paths == []:
            return {}
        rows = self.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *(paths or [])).split(b"\0")
        found = {}
        for row in filter(None, rows):
            about, _, path = row.partition(b"\t")
            mode, kind, blob = about.decode().split()
            if kind == "blob":
                found[os.fsdecode(path)] = (mode, blob)
        return found


class CommitFiles(Mapping[str, bytes]):
    """A commit's files by path, read when asked for. Links are no files here."""

    def __init__(self, plumbing: Plumbing, commit: str):
        self.plumbing = plumbing
        self.blobs = {
            path: blob
            for path, (mode, blob) in plumbing.entries(commit).items()
            if mode in ("100644", "100755")
        }

    def __getitem__(self, path: str) -> bytes:
        return self.plumbing.run("cat-file", "blob", self.blobs[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self.blobs)

    def __len__(self) -> int:
        return len(self.blobs)


@contextmanager
def beside(root: Path) -> Iterator[Plumbing]:
    """Plumbing for a git checkout, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tdmpc2-lean-") as folder:
        yield Plumbing(root, Path(folder))
