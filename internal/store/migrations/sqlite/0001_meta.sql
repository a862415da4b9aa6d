-- Small state that does not deserve a table of its own.
CREATE TABLE meta (
  key        TEXT PRIMARY KEY NOT NULL,
  value      BLOB NOT NULL,
  updated_at INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;
