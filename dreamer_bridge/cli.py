"""The console command `dreamer-bridge`: what `tdmpc2-lean` is for TD-MPC2, for the official DreamerV3."""

import click

import tdmpc2_lean
from tdmpc2_lean import cli


class BridgeSubcommands(cli.Subcommands):
    """Imports a subcommand on use, so that `--help` needs neither jax nor a simulator."""

    known = {
        "train": "Train the patched official agent.",
        "evaluate": "Evaluate a checkpoint with the official evaluation.",
        "ratio": "Convert between train ratio and updates per step.",
        "upstream": "Find, fetch, add and verify official code.",
        "patch": "List, check, apply, revert, export and audit patches.",
        "gate": "Prove that a checkout computes what the official code computes.",
    }
    package = "dreamer_bridge.commands"


@click.group(cls=BridgeSubcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(tdmpc2_lean.__version__, prog_name="dreamer-bridge")
def dreamer_bridge():
    """Train with the official DreamerV3, patched, seeded and recorded; prove that the patches are harmless.

    Needs the extra [dreamer]: jax and what the official agent imports.

    Exit codes: 0 done and every check passed; 1 a check said no; 2 bad input or a missing thing, with the
    next step named; 3 no gate failed, but something is unproved (gate run); 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit the process with its exit code."""
    cli.run(dreamer_bridge, "dreamer-bridge", arguments)
