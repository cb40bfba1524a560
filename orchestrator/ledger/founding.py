"""Making a new ledger, and telling a sound one from anything else."""

from pathlib import Path

from sqlalchemy import Connection, inspect, select

from benchtrial import __version__
from benchtrial.errors import LedgerDamaged, LedgerError, LedgerTooNew
from benchtrial.orchestrator.ledger import records, sqlite
from benchtrial.orchestrator.ledger.schema import SCHEMA_VERSION, campaign, metadata


def found(path: Path, study_json: str, study_hash: str, code_version: str) -> None:
    """Make a ledger that holds a study and nothing else yet."""
    first = {
        "revision": 1,
        "schema_version": SCHEMA_VERSION,
        "study": study_json,
        "study_hash": study_hash,
        "code_version": code_version,
        "created": records.now(),
    }

    def fill(connection: Connection) -> None:
        metadata.create_all(connection)
        connection.execute(campaign.insert(), [first])

    sqlite.create_file(path, fill)


def sound(reader: sqlite.Reader) -> sqlite.Reader:
    """Check that the file is a ledger that this version understands, and hand the reader back."""
    try:
        with reader.connect() as connection:
            _require_ledger(connection, reader.path)
    except BaseException:
        reader.close()
        raise
    return reader


def _require_ledger(connection: Connection, path: Path) -> None:
    found = set(inspect(connection).get_table_names())
    if campaign.name not in found:
        raise LedgerError(
            f"{path}: a database, but not a ledger. Name the file that `benchtrial run` wrote"
        )
    latest = select(campaign.c.schema_version, campaign.c.code_version)
    row = connection.execute(latest.order_by(campaign.c.revision.desc()).limit(1)).one_or_none()
    if row is None:
        raise LedgerDamaged(f"{path}: the ledger holds no study. Restore a copy")
    if row.schema_version > SCHEMA_VERSION:
        raise LedgerTooNew(
            f"{path}: written by Benchtrial {row.code_version} (schema {row.schema_version}); this "
            f"is {__version__} (schema {SCHEMA_VERSION}). Upgrade: pip install -U benchtrial"
        )
    lost = sorted(set(metadata.tables) - found)
    if lost:
        raise LedgerDamaged(f"{path}: tables are missing: {', '.join(lost)}. Restore a copy")
    sqlite.quick_check(connection, path)
