"""The reference of the command line, from the parsers themselves."""

import argparse

from tables import table

from linmed.cli import COMMANDS, build_parser


def page() -> str:
    """Every command with its options."""
    parser = build_parser(COMMANDS)
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    text = "# Command line\n\n"
    text += "`linmed COMMAND --help` prints what stands here. "
    text += "A command that fails says why on stderr and ends with 2, one that is interrupted with 130.\n\n"
    rows = [(f"[`linmed {name}`](#linmed-{name})", line) for name, (_, line) in COMMANDS.items()]
    text += table(("command", ""), rows)
    for name, command in commands.choices.items():
        text += f"\n## linmed {name}\n\n{_sentence(command.description or COMMANDS[name][1])}\n"
        text += f"\n```text\n{_usage(command)}\n```\n"
        rows = [row for action in command._actions if (row := _row(command, action))]
        if rows:
            text += "\n" + table(("argument", ""), rows)
        if command.epilog:
            text += f"\n{command.epilog}\n"
    return text


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text[0].upper()}{text[1:]}."


def _usage(command: argparse.ArgumentParser) -> str:
    command.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=80)
    return command.format_usage().removeprefix("usage: ").rstrip()


def _row(command: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str] | None:
    """An argument as it is written, and what it means; None for --help."""
    if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
        return None
    formatter = command._get_formatter()
    choices = "" if action.choices is None else ", ".join(f"`{choice}`" for choice in action.choices)
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {_value(formatter, action)}"
        written = ", ".join(f"`{option}{value}`" for option in action.option_strings)
    else:
        written = f"`{_value(formatter, action)}`"
    meaning = formatter._expand_help(action) if action.help else ""
    if choices:
        meaning = f"{meaning}{'; ' if meaning else ''}one of {choices}"
    if action.default not in (None, False, argparse.SUPPRESS, "", []) and "default" not in meaning:
        meaning += f"; default: `{action.default}`"
    return written, meaning.removeprefix("; ")


def _value(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    """What stands for the value; of one with choices its name, since these are listed."""
    if action.choices is not None and action.metavar is None:
        return action.dest.upper()
    return formatter._format_args(action, action.dest.upper() if action.option_strings else action.dest)
