"""The official code: found, fetched, verified by git's hashes, and imported under a private name."""

from tdmpc2_lean.upstreams import isolate
from tdmpc2_lean.upstreams.checkout import Checkout
from tdmpc2_lean.upstreams.find import find_checkout
from tdmpc2_lean.upstreams.identity import describe, upstream_of
from tdmpc2_lean.upstreams.inventory import add, fetch, listing, verify
from tdmpc2_lean.upstreams.registry import MINIATURE, UPSTREAMS, KnownIssue, Release, Upstream
from tdmpc2_lean.upstreams.tree import tree_id

__all__ = [
    "MINIATURE",
    "UPSTREAMS",
    "Checkout",
    "KnownIssue",
    "Release",
    "Upstream",
    "add",
    "describe",
    "fetch",
    "find_checkout",
    "isolate",
    "listing",
    "tree_id",
    "upstream_of",
    "verify",
]
