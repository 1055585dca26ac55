"""The outside world of the demo: a web site, an S3 server, a mailbox and a webhook receiver on loopback.

They are separate processes, and each keeps its own append-only log of what it received. Those logs, and
nothing in the ledger, say how often something happened: ``World.counts()`` reads them and nothing else.
"""

from perdure.demo.world.access import ImapAccess, S3Access, SmtpAccess
from perdure.demo.world.launch import World, start
from perdure.demo.world.server_process import WorldError

__all__ = ["ImapAccess", "S3Access", "SmtpAccess", "World", "WorldError", "start"]
