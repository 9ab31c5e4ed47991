"""Commands of `tdmpc2-lean` whose `--upstream` is dreamerv3 unless it is given."""

import copy

import click

UPSTREAM = "dreamerv3"


def of_dreamerv3(group: click.Group) -> click.Group:
    """The same group of commands; of those that have an option --upstream, its default is dreamerv3."""
    twin = copy.copy(group)
    twin.commands = {name: with_default(command) for name, command in group.commands.items()}
    return twin


def with_default(command: click.Command) -> click.Command:
    """A command like the given one, but for the default of its option --upstream, if it has one."""
    twin = copy.copy(command)
    twin.params = [copy.copy(parameter) for parameter in command.params]
    for parameter in twin.params:
        if isinstance(parameter, click.Option) and "--upstream" in parameter.opts:
            parameter.default = UPSTREAM
    return twin
