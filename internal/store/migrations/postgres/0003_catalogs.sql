-- The last good catalog of a server as one credential sees it, under one
-- specification of that server.
CREATE TABLE catalog (
  server     TEXT COLLATE "C" NOT NULL,
  credential TEXT COLLATE "C" NOT NULL, -- a key that stands for the credential, never the credential
  spec       TEXT COLLATE "C" NOT NULL, -- hash of the server's specification
  body       BYTEA NOT NULL,
  mac        BYTEA NOT NULL, -- over the other columns, made and judged by the owner
  saved_at   BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  UNIQUE (server, credential, spec)
);

CREATE INDEX catalog_saved_at ON catalog (saved_at);
