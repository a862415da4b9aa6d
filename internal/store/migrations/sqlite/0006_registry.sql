-- What is known about each capability, whether or not its server runs.
CREATE TABLE tool_catalog (
  capability_id   TEXT PRIMARY KEY NOT NULL,
  name            TEXT NOT NULL, -- as clients see it
  display_name    TEXT NOT NULL,
  description     TEXT NOT NULL,
  category        TEXT NOT NULL,
  kind            TEXT NOT NULL, -- tool, prompt, resource, template
  server          TEXT NOT NULL, -- the server's key in the configuration
  original        TEXT NOT NULL, -- the upstream's own name or URI
  schema          BLOB, -- JSON
  config          BLOB, -- JSON, the operator's
  is_enabled      INTEGER NOT NULL CHECK (is_enabled IN (0, 1)),
  provider        TEXT NOT NULL CHECK (provider IN ('mcp', 'native', 'external')),
  source          TEXT NOT NULL,
  risk            TEXT NOT NULL, -- the operator's; empty when he did not say
  read_only       INTEGER CHECK (read_only IN (0, 1)),
  destructive     INTEGER CHECK (destructive IN (0, 1)),
  high_cost       INTEGER CHECK (high_cost IN (0, 1)),
  definition      BLOB, -- as it is served
  definition_hash TEXT NOT NULL,
  accepted_hash   TEXT NOT NULL, -- of the definition that the operator accepted
  held_definition BLOB, -- as it waits to be accepted
  held_hash       TEXT NOT NULL,
  state           TEXT NOT NULL CHECK (state IN ('active', 'held', 'orphaned')),
  flagged         TEXT NOT NULL, -- JSON array of reasons
  actor           TEXT NOT NULL, -- who made the last change
  reason          TEXT NOT NULL,
  first_seen      INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  changed_at      INTEGER NOT NULL -- the same
) WITHOUT ROWID;

CREATE INDEX tool_catalog_server ON tool_catalog (server);

-- Capabilities that are on or off for one tenant, whatever the catalog says.
CREATE TABLE tenant_tool_flags (
  tenant        TEXT NOT NULL,
  capability_id TEXT NOT NULL,
  enabled       INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  actor         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  at            INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (tenant, capability_id)
) WITHOUT ROWID;

-- Capabilities that one persona may not use.
CREATE TABLE persona_tool_restrictions (
  persona       TEXT NOT NULL,
  capability_id TEXT NOT NULL,
  actor         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  at            INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (persona, capability_id)
) WITHOUT ROWID;
