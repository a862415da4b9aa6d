-- Texts that agents keep between their sessions, of one principal each.
CREATE TABLE memories (
  principal  TEXT NOT NULL, -- encoded by the gate
  id         TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('memory', 'note')),
  name       TEXT NOT NULL, -- chosen by the agent; empty for none
  body       TEXT NOT NULL,
  saved_at   INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  expires_at INTEGER NOT NULL, -- the same
  PRIMARY KEY (principal, id)
) WITHOUT ROWID;

-- A name is that of one text.
CREATE UNIQUE INDEX memories_name ON memories (principal, kind, name) WHERE name <> '';

CREATE INDEX memories_expire ON memories (expires_at);
