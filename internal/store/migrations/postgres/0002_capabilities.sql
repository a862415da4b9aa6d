-- Ids of capabilities, issued once and never taken back: flags, policy and
-- seals refer to them across renames and restarts.
CREATE TABLE capability (
  id         TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  server     TEXT COLLATE "C" NOT NULL, -- the server's key in the configuration
  kind       TEXT COLLATE "C" NOT NULL, -- tool, prompt, resource, template
  original   BYTEA NOT NULL, -- the upstream's own name or URI
  created_at BIGINT NOT NULL -- nanoseconds since 1970, UTC
);

-- An entry of a tree index is limited to a third of a page, and a URI is not.
CREATE UNIQUE INDEX capability_key ON capability (server, kind, sha256(original));

CREATE INDEX capability_original ON capability USING hash (original);
