"""The console command `tdmpc2-lean`: finds the subcommand's module, runs it, turns errors into exit codes."""

import errno
import importlib
import sys

import click

import tdmpc2_lean
from tdmpc2_lean import platforms
from tdmpc2_lean.errors import UserError

# Subcommand -> its line in `tdmpc2-lean --help`. The module is imported only when the subcommand is used.
SUBCOMMANDS = {
    "demo": "Try everything in a few minutes on a CPU.",
    "train": "Train the patched official agent.",
    "evaluate": "Evaluate a checkpoint with the official evaluation.",
    "settings": "Say what each setting may be, and which patch brings it.",
    "upstream": "Find, fetch, add and verify official code.",
    "patch": "List, check, apply, revert, export and audit patches.",
    "gate": "Prove that a checkout computes what the official code computes.",
    "bench": "Measure speed as ratios within one process.",
    "references": "List and extract published curves.",
    "validate": "Make the published protocols' runs, and judge them.",
}


class Subcommands(click.Group):
    """Imports a subcommand on use, so that `--help` needs neither torch nor a simulator.

    known: {subcommand: its line}. package: where the modules of the subcommands' names are.
    """

    known = SUBCOMMANDS
    package = "tdmpc2_lean.commands"

    def list_commands(self, context):
        return list(self.known)

    def get_command(self, context, name):
        if name not in self.known:
            return None
        return getattr(importlib.import_module(f"{self.package}.{name}"), name)

    def format_commands(self, context, formatter):
        with formatter.section("Commands"):
            formatter.write_dl(list(self.known.items()))

    def resolve_command(self, context, arguments):
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            from tdmpc2_lean.nearest import did_you_mean

            error.message += did_you_mean(arguments[0], self.known)
            raise


@click.group(cls=Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(tdmpc2_lean.__version__, prog_name="tdmpc2-lean")
def tdmpc2_lean_command():
    """Patch the official TD-MPC2, prove that the patches are harmless, and train with them.

    Exit codes: 0 done and every check passed; 1 a check said no; 2 bad input or a missing thing, with the
    next step named; 130 interrupted.
    """


def disk_error(error: OSError) -> UserError:
    """What an operating system's refusal means to the user: a full disk, a folder that cannot be written."""
    where = f": {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return UserError(f"no space is left on the disk{where}.", "free some space and type the same command again")
    return UserError(f"{error.strerror or error}{where}.", "name another file or folder, or mend that one")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process with its exit code."""
    run(tdmpc2_lean_command, "tdmpc2-lean", arguments)


def run(command: click.Command, name: str, arguments: list[str] | None = None) -> None:
    """Run a command line of ours and exit the process with its exit code, whether or not its output is read to the end.

    On a system that is not supported it says so, before anything is imported that such a system lacks.
    """
    platforms.outlive_readers()
    try:
        platforms.check()
        code = command.main(arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except OSError as error:
        click.echo(f"error: {disk_error(error)}", err=True)
        code = UserError.exit_code
    sys.exit(code if isinstance(code, int) else 0)
