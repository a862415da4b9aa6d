-- The last good catalog of a server as one credential sees it, under one
-- specification of that server.
CREATE TABLE catalog (
  server     TEXT NOT NULL,
  credential TEXT NOT NULL, -- a key that stands for the credential, never the credential
  spec       TEXT NOT NULL, -- hash of the server's specification
  body       BLOB NOT NULL,
  mac        BLOB NOT NULL, -- over the other columns, made and judged by the owner
  saved_at   INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  UNIQUE (server, credential, spec)
);

CREATE INDEX catalog_saved_at ON catalog (saved_at);
