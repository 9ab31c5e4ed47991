"""Patches to the upstreams, as data: a folder an upstream, in it `series` and a folder a patch."""
