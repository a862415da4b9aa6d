-- Tools that an operator has declared in the store.
CREATE TABLE declared_tools (
  name        TEXT COLLATE "C" PRIMARY KEY NOT NULL, -- with its namespace
  body        BYTEA NOT NULL, -- a document of this one tool
  actor       TEXT COLLATE "C" NOT NULL, -- who declared it
  reason      TEXT COLLATE "C" NOT NULL,
  changed_at  BIGINT NOT NULL -- nanoseconds since 1970, UTC
);
