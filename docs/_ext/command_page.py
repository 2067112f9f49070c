"""The command line as a page, from the commands themselves."""

import re

import typer

from errorfeedback.cli.app import app

HEAD = """# Command line

Written from the commands themselves (`docs/_ext/command_page.py`); `errorfeedback VERB --help` prints the same. Exit codes:
0 done, 1 a run that failed, 2 a command or an input that is wrong (one sentence on stderr says what), 130 interrupted,
143 terminated. Where more is said about a verb: [training](../training.md), [data](../data.md), [engines](../engines.md).

"""
OTHERS = "Options"


def page():
    """Markdown."""
    group = typer.main.get_command(app())
    context = typer.Context(group, info_name="errorfeedback")
    verbs = [group.get_command(context, name) for name in group.list_commands(context)]
    return HEAD + "\n".join(_verb(verb, context) for verb in verbs)


def _verb(verb, parent):
    if getattr(verb, "commands", None):
        context = typer.Context(verb, info_name=verb.name, parent=parent)
        return "\n".join(_verb(verb.get_command(context, name), context) for name in verb.list_commands(context))
    context = typer.Context(verb, info_name=verb.name, parent=parent)
    usage = " ".join([context.command_path, *verb.collect_usage_pieces(context)])
    lines = [f"## {context.command_path}", "", "```console", usage, "```", "", _prose(verb.help or ""), ""]
    for heading, parameters in _panels(verb).items():
        lines += [f"**{heading}**", "", "| option | |" if heading != "Arguments" else "| argument | |", "|---|---|"]
        lines += [_row(parameter, context) for parameter in parameters] + [""]
    return "\n".join(lines)


def _panels(verb):
    """Arguments first, then the verb's own options, those that it must have before the others, then the panels."""
    panels = {"Arguments": [], OTHERS: []}
    for parameter in sorted(verb.params, key=lambda p: not p.required):
        argument = parameter.param_type_name == "argument"
        heading = "Arguments" if argument else parameter.rich_help_panel or OTHERS
        panels.setdefault(heading, []).append(parameter)
    return {heading: parameters for heading, parameters in panels.items() if parameters}


def _row(parameter, context):
    name, says = parameter.get_help_record(context)
    return f"| `{_bars(name.strip())}` | {_cell(_prose(says))} |"


def _prose(text):
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", text.strip().replace("||", r"\|\|"))


def _cell(text):
    return _bars(text).replace("<", "&lt;").replace("*", r"\*")


def _bars(text):
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " "))
