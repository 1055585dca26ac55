"""The commands by which a person learns whether to trust a ledger and the machine it is on."""

from __future__ import annotations

from perdure.cli.words.grammar import Commands

NOUNS: dict[str, tuple[str, ...]] = {
    "doctor": (),
    "verify": (),
    "db": ("path", "check", "backup", "migrate", "prune"),
    "help": (),
}


def add_to(commands: Commands) -> None:
    """Add them."""
    commands.add("doctor", "look at the machine and the ledger, and say what is wrong; changes nothing", _of("doctor"))
    verify = commands.add("verify", "check every invariant of the ledger; exit 1 if one does not hold", _of("verify"))
    verify.add_argument("run", metavar="RUN", nargs="?", help="only of this run: its id, a unique prefix, or @last")
    verify.add_argument(
        "--expect-head", metavar="HASH", help="the head that an earlier verify printed; it must still be in the chain"
    )
    db = commands.noun("db", "look after the ledger's file")
    db.add("path", "print where the ledger is", _of("db_path"))
    db.add("check", "read every page with its checksum, and compare the log with its witness", _of("db_check"))
    backup = db.add("backup", "copy the ledger while runs are going on, and check the copy", _of("db_backup"))
    backup.add_argument("file", metavar="FILE", help="the new file; nothing is overwritten")
    migrate = db.add("migrate", "bring an older ledger up to this version; it is copied first", _of("db_migrate"))
    migrate.add_argument("--dry-run", action="store_true", help="only say what would be applied")
    migrate.add_argument("--print-sql", action="store_true", help="with the statements; nothing is applied")
    prune = db.add("prune", "remove the bodies of runs that ended long ago; keys and outcomes stay", _of("db_prune"))
    prune.add_argument("--older-than", metavar="TIME", default="30d", help="how long ago a run ended (default 30d)")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    prune.add_argument("--workspaces", action="store_true", help="remove the folders of these runs too")
    prune.add_argument("--vacuum", action="store_true", help="write the file anew without the room that became free")
    told = commands.add(
        "help", "tell what an error code means and what to do; needs no network", ("help_cmd", "help_on")
    )
    told.add_argument(
        "subject",
        metavar="CODE|TOPIC|COMMAND",
        nargs="?",
        help="PERDURE-NNN, exit-codes, in-doubt, run, …; else a list",
    )
    told.add_argument("verb", metavar="VERB", nargs="?", help="of a command that has some: perdure help runs ls")


def _of(function: str) -> tuple[str, str]:
    return "trust_cmd", function
