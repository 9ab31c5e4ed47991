"""`tdmpc2-lean settings`: what each setting of an upstream may be, its default, and which patch brings it."""

import click

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.nearest import did_you_mean
from tdmpc2_lean.runs.adapter import adapter_of
from tdmpc2_lean.settings.schema import MISSING, Schema, Setting
from tdmpc2_lean.upstreams.registry import DEFAULT, UPSTREAMS


@click.command(short_help="Say what each setting may be, and which patch brings it.")
@click.argument("words", nargs=-1)
@click.option("--upstream", type=click.Choice(list(UPSTREAMS)), default=DEFAULT, help="Whose settings.")
def settings(words: tuple[str, ...], upstream: str):
    """List all settings, or those of which a word is the name, or part of the name or of the meaning.

    A setting is given as name=value to `tdmpc2-lean train` and `evaluate`, or to `dreamer-bridge train`.
    """
    schema = adapter_of(upstream).schema()
    for setting in found(schema, words):
        click.echo(described(schema, setting))


def found(schema: Schema, words: tuple[str, ...]) -> list[Setting]:
    """The settings that the words mean, in the schema's order; all without a word. UserError for a word of none."""
    if not words:
        return list(schema)
    wanted: set[str] = set()
    for word in words:
        names = {word} if word in schema else {
            setting.name for setting in schema if word.lower() in f"{setting.name} {setting.meaning}".lower()
        }  # fmt: skip
        if not names:
            raise UserError(
                f"there is no setting {word!r}.{did_you_mean(word, schema.settings)}", f"{schema.listing} lists all"
            )
        wanted |= names
    return [setting for setting in schema if setting.name in wanted]


def described(schema: Schema, setting: Setting) -> str:
    """A setting, to be read: its name, what it may be, its default, its meaning, reasons, the patch."""
    default = "" if setting.default == MISSING else f"; by default {schema.shown(setting.default)}"
    patch = f"  [patch {setting.patch}]" if setting.patch else ""
    made = "" if setting.decides or setting.type == "computed" else "Does not decide what a run computes."
    lines = [f"{setting.name}{patch}", f"  {setting.said()}{default}"]
    meaning = "" if setting.type == "computed" else setting.meaning
    return "\n".join([*lines, *(f"  {text}" for text in (meaning, setting.why, made) if text)])
