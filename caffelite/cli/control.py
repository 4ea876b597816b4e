"""caffelite control"""

from pathlib import Path

import click

from .output import say

ACTIONS = ("pause", "resume", "snapshot", "kill", "note", "clone")  # those of control.ACTIONS, and two more


@click.command(short_help="Pause, resume or end training runs; tag them")
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="With note: add a tag; repeatable.")
@click.option("--untag", multiple=True, metavar="TEXT", help="With note: remove a tag; repeatable.")
@click.option("--text", metavar="TEXT", help="With note: replace the note.")
@click.option(
    "--python",
    multiple=True,
    metavar="PATH",
    help="With resume: file with layers of your own, or folder of them and of the modules of Python layers; "
    "repeatable. Those that the run's records name are not used.",
)
@click.option(
    "--fork",
    metavar="DIR",
    help="With resume: folder of the fork whose layers the run needs. The one that the run's records name is not used.",
)
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="With clone: the new folder.")
def control(action, folders, tags, untag, text, python, fork, to) -> None:
    """Controls the runs of run folders, however they were started on this machine.

    pause requests a snapshot and the end of the run; resume continues from the newest snapshot, as a job of the queue
    where a scheduler works, else in a process of its own; snapshot requests one now; kill ends the process at once,
    without one. note changes tags and note, and prints them. clone copies solver and nets to a new folder, to edit and
    train them.

    \b
    Examples:
      caffelite control pause lenet_run
      caffelite control resume lenet_run
      caffelite control clone lenet_run -to lenet_copy
      caffelite control note lenet_run -tag baseline -text "learning rate of the paper"
    """
    from ..runs import control, listing
    from ..runs.queue.edit import act

    if action != "note" and (tags or untag or text is not None):
        raise click.UsageError("-tag, -untag and -text go with note")
    if (python or fork) and action != "resume":
        raise click.UsageError(f"-{'python' if python else 'fork'} goes with resume")
    if to and (action != "clone" or len(folders) > 1):
        raise click.UsageError("-to goes with clone and one run")
    for folder in folders:
        if action == "note":
            notes = listing.change_notes(folder, add=tags, remove=untag, note=text)
            say(f"{folder}: {', '.join(notes.tags) or 'no tag'}" + (f"\n{notes.note}" if notes.note else ""))
        elif action == "clone":
            say(f"wrote {control.clone(folder, to or control.free_folder(folder))}")
        else:
            say(act(folder, action, python=python, fork=fork))
