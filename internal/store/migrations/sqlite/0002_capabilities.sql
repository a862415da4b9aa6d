-- Ids of capabilities, issued once and never taken back: flags, policy and
-- seals refer to them across renames and restarts.
CREATE TABLE capability (
  id         TEXT PRIMARY KEY NOT NULL,
  server     TEXT NOT NULL, -- the server's key in the configuration
  kind       TEXT NOT NULL, -- tool, prompt, resource, template
  original   TEXT NOT NULL, -- the upstream's own name or URI
  created_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  UNIQUE (server, kind, original)
) WITHOUT ROWID;
