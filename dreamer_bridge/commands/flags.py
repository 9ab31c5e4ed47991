"""Command lines of words, and of official flags after `--`."""

import click


class WordsAndFlags(click.Command):
    """Hands on what stands after `--` as it is, as the context's object, apart from the words before it."""

    def parse_args(self, context, arguments):
        arguments = list(arguments)
        at = arguments.index("--") if "--" in arguments else len(arguments)
        context.obj = arguments[at + 1 :]
        return super().parse_args(context, arguments[:at])
