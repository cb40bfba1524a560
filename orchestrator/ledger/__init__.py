"""The durable record of a campaign: one file, append-only, never behind what was acknowledged.

How the tables relate::

    campaign   the study as run, its hash, the schema version; the last revision holds
    rounds ──< queries ──< attempts ──  outcomes ──  replies ──  bodies
                  │                                     │
                  └──────────────< verdicts >───────────┘
    texts      what judges read, each text once; queries name them by hash
    looks      what each look decided, and up to which reply it could see
    events     whatever else happened (a lock was taken over)

A *query* is a design cell with its rendered request, planned before it is asked. An *attempt* is
the intent to send it, written with its reservation before it leaves. It has at most one *outcome*
(replied, failed, or withdrawn before it was sent); an attempt without one is *unknown*: the run was
cut off, and its whole reservation counts as spent until an outcome is recorded. A *reply* is kept
apart from its *body* (the words, the tokens, the raw answer) so that counting does not read words.
*Verdicts* belong to the reply they were read from, or to none where no attempt brought one.

A query's first reply to arrive is the one that counts; later ones are kept as duplicates. Facts
about items, candidates and judges (groups, lengths, families) stand in the study alone and are
handed to the tables as ``Covariates`` when they are read.

``ledger`` is the room's front: create, open, write; ``reading`` is its other half. Behind them
``writer`` makes commits durable for many at once, ``records`` turns objects into rows and back,
``tables`` and ``history`` hold the queries, ``lock`` keeps other writers out, ``sqlite`` knows the
file, and ``schema`` the tables.

A ledger belongs on a local disk: while it is open, its readers and its writer share memory, which a
network file system cannot give. Copying a closed ledger to one, or from one, is fine.
"""

from benchtrial.orchestrator.ledger.history import Summary
from benchtrial.orchestrator.ledger.ledger import Ledger
from benchtrial.orchestrator.ledger.records import PlannedQuery, VerdictLike
from benchtrial.orchestrator.ledger.schema import SCHEMA_VERSION
from benchtrial.orchestrator.ledger.tables import EXPORTS, Covariates

__all__ = [
    "EXPORTS",
    "SCHEMA_VERSION",
    "Covariates",
    "Ledger",
    "PlannedQuery",
    "Summary",
    "VerdictLike",
]
