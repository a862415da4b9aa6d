-- Texts that agents keep between their sessions, of one principal each.
CREATE TABLE memories (
  principal  BYTEA NOT NULL, -- encoded by the gate
  id         TEXT COLLATE "C" NOT NULL,
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('memory', 'note')),
  name       TEXT COLLATE "C" NOT NULL, -- chosen by the agent; empty for none
  body       TEXT COLLATE "C" NOT NULL,
  saved_at   BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  expires_at BIGINT NOT NULL, -- the same
  PRIMARY KEY (principal, id)
);

-- A name is that of one text.
CREATE UNIQUE INDEX memories_name ON memories (principal, kind, name) WHERE name <> '';

CREATE INDEX memories_expire ON memories (expires_at);
