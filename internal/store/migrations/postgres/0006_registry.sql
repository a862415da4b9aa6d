-- What is known about each capability, whether or not its server runs.
CREATE TABLE tool_catalog (
  capability_id   TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  name            BYTEA NOT NULL, -- as clients see it
  display_name    TEXT COLLATE "C" NOT NULL,
  description     TEXT COLLATE "C" NOT NULL,
  category        TEXT COLLATE "C" NOT NULL,
  kind            TEXT COLLATE "C" NOT NULL, -- tool, prompt, resource, template
  server          TEXT COLLATE "C" NOT NULL, -- the server's key in the configuration
  original        BYTEA NOT NULL, -- the upstream's own name or URI
  schema          BYTEA, -- JSON
  config          BYTEA, -- JSON, the operator's
  is_enabled      BOOLEAN NOT NULL,
  provider        TEXT COLLATE "C" NOT NULL CHECK (provider IN ('mcp', 'native', 'external')),
  source          TEXT COLLATE "C" NOT NULL,
  risk            TEXT COLLATE "C" NOT NULL, -- the operator's; empty when he did not say
  read_only       BOOLEAN,
  destructive     BOOLEAN,
  high_cost       BOOLEAN,
  definition      BYTEA, -- as it is served
  definition_hash TEXT COLLATE "C" NOT NULL,
  accepted_hash   TEXT COLLATE "C" NOT NULL, -- of the definition that the operator accepted
  held_definition BYTEA, -- as it waits to be accepted
  held_hash       TEXT COLLATE "C" NOT NULL,
  state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'held', 'orphaned')),
  flagged         TEXT COLLATE "C" NOT NULL, -- JSON array of reasons
  actor           TEXT COLLATE "C" NOT NULL, -- who made the last change
  reason          TEXT COLLATE "C" NOT NULL,
  first_seen      BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  changed_at      BIGINT NOT NULL -- the same
);

CREATE INDEX tool_catalog_server ON tool_catalog (server);

-- Capabilities that are on or off for one tenant, whatever the catalog says.
CREATE TABLE tenant_tool_flags (
  tenant        TEXT COLLATE "C" NOT NULL,
  capability_id TEXT COLLATE "C" NOT NULL,
  enabled       BOOLEAN NOT NULL,
  actor         TEXT COLLATE "C" NOT NULL,
  reason        TEXT COLLATE "C" NOT NULL,
  at            BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (tenant, capability_id)
);

-- Capabilities that one persona may not use.
CREATE TABLE persona_tool_restrictions (
  persona       TEXT COLLATE "C" NOT NULL,
  capability_id TEXT COLLATE "C" NOT NULL,
  actor         TEXT COLLATE "C" NOT NULL,
  reason        TEXT COLLATE "C" NOT NULL,
  at            BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (persona, capability_id)
);
