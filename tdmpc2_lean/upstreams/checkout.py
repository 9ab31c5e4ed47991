"""What is known of a folder with an upstream's files, and what a run's record says of it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tdmpc2_lean.upstreams import ancestry, repository
from tdmpc2_lean.upstreams.known_issues import issues_of
from tdmpc2_lean.upstreams.layout import Layout
from tdmpc2_lean.upstreams.registry import MINIATURE, MINIATURE_OF, UPSTREAMS, Upstream


@dataclass(frozen=True)
class Checkout:
    """A folder with an upstream's files, and how much of it is proved by hashes.

    upstream: 'tdmpc2', 'dreamerv3' or 'miniature'.
    commit, tree: what git calls the files before patches and local changes; None where nothing vouches for
        them. The files of a release are some of the commit's, and its tree is that of what was released.
    source: 'argument', 'environment', 'cache', 'clone', 'release' or 'package'.
    local_changes: paths of files that differ from the commit and are no recorded patch of ours.
    patches: (name, sha256) of each patch that is applied in the folder, in order.
    release: the version of the upstream's release on package indexes, where the files are that release's.
    code: the code folder's path from `root` where it is not the official one; None for that.
    nearest: the files are no commit's: `commit` is the official one to which they come nearest, and local_changes is
        what differs from it.
    """

    upstream: str
    root: Path
    commit: str | None
    tree: str | None
    source: str
    local_changes: tuple[str, ...] = ()
    patches: tuple[tuple[str, str], ...] = ()
    release: str | None = None
    nearest: bool = False
    code: str | None = None

    @property
    def known(self) -> Upstream:
        """The upstream; of the miniature the one for which it stands."""
        return UPSTREAMS[MINIATURE_OF if self.upstream == MINIATURE else self.upstream]

    @property
    def layout(self) -> Layout:
        """Where the code lies."""
        return Layout(self.known, self.known.code if self.code is None else self.code)

    @property
    def code_dir(self) -> Path:
        """The folder from which the code is run and imported."""
        return self.root / self.layout.code

    @cached_property
    def descent(self) -> ancestry.Descent | None:
        """The official commit that the code comes from; None where there is none, as of the miniature or a release."""
        if self.upstream == MINIATURE or self.release or self.commit is None:
            return None
        return ancestry.descent_of(self.root, self.commit, self.layout, self.commit if self.nearest else None)

    @property
    def label(self) -> str:
        """For tables and captions: 'tdmpc2 e9f5932', 'dreamerv3 release 3.3.1' or 'miniature'.

        '+ local changes' stands after it where there are some, and 'not official' where hashes do not say that it is,
        whoever names it.
        """
        which = f"release {self.release}" if self.release else (self.commit or "unknown")[:7]
        changes = " + local changes" if self.local_changes else ""
        if self.upstream == MINIATURE:
            return self.upstream + changes
        return f"{self.upstream} {which}{changes}" + ("" if self.verified else ", not official")

    @property
    def verified(self) -> bool:
        """Whether these are an official commit's or release's files by their hashes, our recorded patches aside."""
        if self.commit is None or self.local_changes:
            return False
        known = UPSTREAMS[self.upstream]
        return self.tree == known.release.tree if self.release else repository.is_official(known, self.commit)

    @property
    def known_issues(self) -> list[str]:
        """What upstream has mended since in the code of this commit, but for what the applied patches mend."""
        return issues_of(self.upstream, self.commit, self.root, [name for name, _ in self.patches])

    def provenance(self) -> dict:
        """What a run's folder records about the code it used; holds nothing but JSON's own types."""
        released = {}
        if self.release:
            released = {"release": self.release, "sdist_sha256": UPSTREAMS[self.upstream].release.sha256}
        return {
            "upstream": self.upstream,
            "commit": self.commit,
            "tree": self.tree,
            "source": self.source,
            "local_changes": list(self.local_changes),
            "verified": self.verified,
            "patches": [{"name": name, "sha256": sha256} for name, sha256 in self.patches],
            "known_issues": self.known_issues,
        } | released | ({"nearest": True} if self.nearest else {}) | self._descent_of_what_is_not_official()

    def _descent_of_what_is_not_official(self) -> dict:
        """For a record: from which official commit code comes that is none itself, and which name its folder has."""
        renamed = {} if self.layout.code == self.known.code else {"code_folder": self.layout.code}
        if self.verified or self.descent is None or self.descent.how == "own":
            return renamed
        return renamed | {"descends_from": self.descent.as_dict()}
