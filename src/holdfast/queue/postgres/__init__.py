"""The queue in a PostgreSQL that several machines share. Loaded only where HOLDFAST_DATABASE_URL is set."""

from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.postgres_queue import PostgresQueue

__all__ = ["Database", "PostgresQueue"]
