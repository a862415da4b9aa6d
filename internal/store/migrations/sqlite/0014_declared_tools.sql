-- Tools that an operator has declared in the store.
CREATE TABLE declared_tools (
  name        TEXT PRIMARY KEY NOT NULL, -- with its namespace
  body        BLOB NOT NULL, -- a document of this one tool
  actor       TEXT NOT NULL, -- who declared it
  reason      TEXT NOT NULL,
  changed_at  INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;
