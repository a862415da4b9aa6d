-- What the migrations make of an empty file. It is written by a test: go test -run SchemaIsWhat -update

CREATE TABLE meta (
  key        TEXT PRIMARY KEY NOT NULL,
  value      BLOB NOT NULL,
  updated_at INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

CREATE TABLE capability (
  id         TEXT PRIMARY KEY NOT NULL,
  server     TEXT NOT NULL, -- the server's key in the configuration
  kind       TEXT NOT NULL, -- tool, prompt, resource, template
  original   TEXT NOT NULL, -- the upstream's own name or URI
  created_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  UNIQUE (server, kind, original)
) WITHOUT ROWID;

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

CREATE TABLE round (
  call    TEXT NOT NULL,
  round   INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- nanoseconds since 1970, UTC; after it the state is worth nothing
  PRIMARY KEY (call, round)
) WITHOUT ROWID;

CREATE INDEX round_expires ON round (expires);

CREATE TABLE generation (
  topic      TEXT PRIMARY KEY NOT NULL,
  generation INTEGER NOT NULL
) WITHOUT ROWID;

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

CREATE TABLE tenant_tool_flags (
  tenant        TEXT NOT NULL,
  capability_id TEXT NOT NULL,
  enabled       INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  actor         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  at            INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (tenant, capability_id)
) WITHOUT ROWID;

CREATE TABLE persona_tool_restrictions (
  persona       TEXT NOT NULL,
  capability_id TEXT NOT NULL,
  actor         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  at            INTEGER NOT NULL, allowed INTEGER NOT NULL DEFAULT 0 CHECK (allowed IN (0, 1)), -- nanoseconds since 1970, UTC
  PRIMARY KEY (persona, capability_id)
) WITHOUT ROWID;

CREATE TABLE dynamic_servers (
  server      TEXT PRIMARY KEY NOT NULL, -- key of the server, as in the configuration
  tenant      TEXT NOT NULL, -- who owns it,
  principal   TEXT NOT NULL, -- encoded by the gate
  entry       TEXT NOT NULL, -- of the operator's list
  arguments   BLOB NOT NULL, -- JSON
  promoted    INTEGER NOT NULL CHECK (promoted IN (0, 1)), -- an operator made it everyone's
  actor       TEXT NOT NULL, -- who made the last change
  reason      TEXT NOT NULL,
  created_at  INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  changed_at  INTEGER NOT NULL -- the same
, registered_by_persona TEXT NOT NULL DEFAULT '') WITHOUT ROWID;

CREATE INDEX dynamic_servers_owner ON dynamic_servers (tenant, principal);

CREATE TABLE operating_mode (
  seq    INTEGER PRIMARY KEY AUTOINCREMENT,
  mode   TEXT NOT NULL,
  actor  TEXT NOT NULL,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL -- nanoseconds since 1970, UTC
);

CREATE TABLE approvals (
  id            TEXT PRIMARY KEY NOT NULL,
  principal     TEXT NOT NULL, -- encoded by the gate
  capability_id TEXT NOT NULL,
  args_hash     TEXT NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'used', 'expired')),
  asked_at      INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  expires_at    INTEGER NOT NULL, -- the same; of the question, then of the grant
  decided_by    TEXT NOT NULL,
  reason        TEXT NOT NULL,
  decided_at    INTEGER NOT NULL, -- the same; 0 until then
  closed_at     INTEGER NOT NULL -- the same; when it was denied, used or expired, 0 until then
, details TEXT NOT NULL DEFAULT '', arguments TEXT NOT NULL DEFAULT '') WITHOUT ROWID;

CREATE UNIQUE INDEX approvals_live ON approvals (principal, capability_id, args_hash)
  WHERE state IN ('pending', 'granted');

CREATE INDEX approvals_state ON approvals (state, asked_at);

CREATE TABLE budget_window (
  budget  TEXT NOT NULL,
  measure TEXT NOT NULL,
  owner   TEXT NOT NULL,
  starts  INTEGER NOT NULL, -- milliseconds since 1970, UTC
  ends    INTEGER NOT NULL, -- likewise
  used    INTEGER NOT NULL,
  PRIMARY KEY (budget, measure, owner, starts, ends)
) WITHOUT ROWID;

CREATE TABLE budget_bill (
  call    TEXT NOT NULL,
  round   INTEGER NOT NULL,
  expires INTEGER NOT NULL, -- milliseconds since 1970, UTC; after it nobody asks
  taken   TEXT NOT NULL,    -- numbers with commas between them
  settled INTEGER NOT NULL CHECK (settled IN (0, 1)),
  PRIMARY KEY (call, round)
) WITHOUT ROWID;

CREATE INDEX budget_bill_expires ON budget_bill (expires);

CREATE TABLE audit_anchor (
  replica TEXT NOT NULL,
  run     TEXT NOT NULL,
  chain   TEXT NOT NULL,
  seq     INTEGER NOT NULL, -- of the last line of the run
  mac     TEXT NOT NULL,    -- its MAC
  at      INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (replica, run)
) WITHOUT ROWID;

CREATE TABLE tool_execution_log (
  id            INTEGER PRIMARY KEY,
  at            INTEGER NOT NULL, -- milliseconds since 1970, UTC
  call_id       TEXT NOT NULL,
  server        TEXT NOT NULL,
  tool          TEXT NOT NULL, -- as exposed
  tenant        TEXT NOT NULL,
  persona_id    TEXT NOT NULL,
  session_id    TEXT NOT NULL, -- a hash
  success       INTEGER NOT NULL CHECK (success IN (0, 1)),
  error_class   TEXT NOT NULL, -- empty for a success
  duration_us   INTEGER NOT NULL,
  upstream_us   INTEGER NOT NULL,
  request_size  INTEGER NOT NULL,
  response_size INTEGER NOT NULL,
  args_hash     TEXT NOT NULL
, principal TEXT NOT NULL DEFAULT '', bytes_saved INTEGER NOT NULL DEFAULT 0);

CREATE INDEX tool_execution_log_at ON tool_execution_log (at);

CREATE TABLE credential (
  id          TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the next five
  server      TEXT NOT NULL, -- key of the server, as in the configuration
  principal   BLOB NOT NULL, -- encoded by the gate; empty for the one that all share
  issuer      TEXT NOT NULL,
  resource    TEXT NOT NULL,
  scopes      TEXT NOT NULL, -- asked for, sorted
  body        BLOB NOT NULL,
  version     INTEGER NOT NULL, -- one more with every renewal
  lease       TEXT NOT NULL, -- who renews it,
  lease_until INTEGER NOT NULL, -- until then: nanoseconds since 1970, UTC
  saved_at    INTEGER NOT NULL -- the same
) WITHOUT ROWID;

CREATE INDEX credential_of ON credential (server, principal);

CREATE TABLE login (
  id      TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the state that they carry
  body    BLOB NOT NULL,
  expires INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

CREATE INDEX login_expires ON login (expires);

CREATE TABLE oauth_client (
  issuer   TEXT NOT NULL,
  redirect TEXT NOT NULL, -- where people come back to
  body     BLOB NOT NULL,
  saved_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (issuer, redirect)
) WITHOUT ROWID;

CREATE TABLE declared_tools (
  name        TEXT PRIMARY KEY NOT NULL, -- with its namespace
  body        BLOB NOT NULL, -- a document of this one tool
  actor       TEXT NOT NULL, -- who declared it
  reason      TEXT NOT NULL,
  changed_at  INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

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

CREATE UNIQUE INDEX memories_name ON memories (principal, kind, name) WHERE name <> '';

CREATE INDEX memories_expire ON memories (expires_at);

CREATE TABLE dynamic_tools (
  name                  TEXT PRIMARY KEY NOT NULL, -- with the namespace of its owner
  registered_by_tenant  TEXT NOT NULL, -- who owns it,
  principal             TEXT NOT NULL, -- encoded by the gate
  template              TEXT NOT NULL, -- a declared tool, with its namespace
  body                  BLOB NOT NULL, -- what was registered, sealed
  actor                 TEXT NOT NULL, -- who made the last change
  reason                TEXT NOT NULL,
  created_at            INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  changed_at            INTEGER NOT NULL -- the same
, registered_by_persona TEXT NOT NULL DEFAULT '') WITHOUT ROWID;

CREATE INDEX dynamic_tools_owner ON dynamic_tools (registered_by_tenant, principal);

CREATE TABLE schedules (
  id         TEXT PRIMARY KEY NOT NULL,
  principal  TEXT NOT NULL, -- encoded by the gate
  credential TEXT NOT NULL, -- by which the principal was known
  capsule    TEXT NOT NULL, -- of the endpoint; empty for none
  tool       TEXT NOT NULL, -- as exposed
  arguments  BLOB NOT NULL, -- a JSON object
  state      TEXT NOT NULL CHECK (state IN ('planned', 'running', 'made', 'failed', 'refused', 'missed', 'lost', 'cancelled')),
  due_at     INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  created_at INTEGER NOT NULL, -- the same
  holder     TEXT NOT NULL, -- of the claim; empty before
  lease      INTEGER NOT NULL, -- nanoseconds since 1970, UTC: when the holder counts as dead
  ended_at   INTEGER NOT NULL, -- the same; 0 until then
  call_id    TEXT NOT NULL, -- of the call in the audit log; empty for none
  result     BLOB NOT NULL -- what the owner is told
) WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (state, due_at);

CREATE INDEX schedules_principal ON schedules (principal, created_at);

CREATE VIEW capability_view AS
SELECT capability_id AS id, name, display_name, description, category, CAST(schema AS TEXT) AS schema,
  CAST(config AS TEXT) AS config, is_enabled, provider
FROM tool_catalog;

CREATE VIEW tool_catalog_view AS
SELECT name, is_enabled AS enabled, description, COALESCE(CAST(schema AS TEXT), '{}') AS params,
  CASE WHEN source = 'dynamic' THEN 'dynamic' WHEN provider = 'native' THEN 'agent' WHEN provider = 'external' THEN 'executor' ELSE provider END AS source,
  strftime('%Y-%m-%dT%H:%M:%SZ', first_seen / 1000000000, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%SZ', changed_at / 1000000000, 'unixepoch') AS updated_at
FROM tool_catalog WHERE kind = 'tool';

CREATE VIEW tenant_tool_flags_view AS
SELECT f.tenant AS tenant_id, c.name AS tool_name, f.enabled,
  strftime('%Y-%m-%dT%H:%M:%SZ', f.at / 1000000000, 'unixepoch') AS updated_at
FROM tenant_tool_flags f JOIN tool_catalog c ON c.capability_id = f.capability_id;

CREATE VIEW persona_tool_restrictions_view AS
SELECT r.persona AS persona_id, c.name AS tool_name, r.allowed, r.reason,
  strftime('%Y-%m-%dT%H:%M:%SZ', r.at / 1000000000, 'unixepoch') AS updated_at
FROM persona_tool_restrictions r JOIN tool_catalog c ON c.capability_id = r.capability_id;

CREATE VIEW tool_execution_log_view AS
SELECT id, tool AS tool_name, tenant AS tenant_id, persona_id, session_id, args_hash, success,
  duration_us / 1000 AS duration_ms, error_class AS error_message,
  strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch') AS created_at
FROM tool_execution_log;

CREATE TABLE tool_definitions (
  capability_id  TEXT NOT NULL,
  hash           TEXT NOT NULL,
  definition     BLOB NOT NULL, -- JSON
  accepted_at    INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  actor          TEXT NOT NULL, -- who accepted it first
  reason         TEXT NOT NULL,
  PRIMARY KEY (capability_id, hash)
) WITHOUT ROWID;

CREATE INDEX tool_execution_log_principal ON tool_execution_log (principal, at);

CREATE TABLE vector (
  space   TEXT NOT NULL, -- hash of what made the vector: the endpoint and its model
  text    TEXT NOT NULL, -- hash of the text
  body    BLOB NOT NULL, -- written and read by the owner alone
  used_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC; to the day
  PRIMARY KEY (space, text)
) WITHOUT ROWID;

CREATE INDEX vector_used_at ON vector (used_at);

CREATE TABLE search_pairs (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL, -- of the caller
  caller TEXT NOT NULL, -- a hash of the principal
  server TEXT NOT NULL,
  tool   TEXT NOT NULL, -- as exposed
  query  TEXT NOT NULL, -- without secrets
  at     INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  place  INTEGER NOT NULL, -- of the tool in the answer, from 1
  shadow INTEGER NOT NULL -- its place with the model that was not in force; 0 for none, negative for not found
);

CREATE INDEX search_pairs_of ON search_pairs (tenant, server, tool, caller, at);

CREATE INDEX search_pairs_at ON search_pairs (at);

CREATE TABLE search_models (
  tenant     TEXT NOT NULL PRIMARY KEY,
  model      BLOB NOT NULL,
  trained_at INTEGER NOT NULL -- nanoseconds since 1970, UTC
, version INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE TABLE search_forgotten (
  tenant TEXT NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL -- nanoseconds since 1970, UTC
) WITHOUT ROWID;

CREATE TABLE runs (
  id         TEXT PRIMARY KEY NOT NULL,
  principal  BLOB NOT NULL, -- encoded by the gate
  credential TEXT NOT NULL, -- by which the principal was known
  lasting    INTEGER NOT NULL, -- 1 where its rights can be looked up when it is not there
  capsule    TEXT NOT NULL, -- of the endpoint; empty for none
  agent      TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'interrupted', 'limit', 'completed', 'failed', 'cancelled')),
  cancel     INTEGER NOT NULL, -- 1 when somebody has asked for it
  request    BLOB NOT NULL, -- sealed
  result     BLOB NOT NULL, -- sealed; empty until there is one
  size       INTEGER NOT NULL, -- of all steps, in bytes
  holder     TEXT NOT NULL, -- of the claim; empty where nobody works on it
  lease      INTEGER NOT NULL, -- nanoseconds since 1970, UTC: when the holder counts as dead
  created_at INTEGER NOT NULL, -- the same
  changed_at INTEGER NOT NULL -- the same: of its state
);

CREATE INDEX runs_principal ON runs (principal, created_at);

CREATE INDEX runs_state ON runs (state, changed_at);

CREATE TABLE run_steps (
  run      TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  kind     TEXT NOT NULL CHECK (kind IN ('inference', 'call', 'function')),
  turn     INTEGER NOT NULL,
  name     TEXT NOT NULL, -- of the tool, or of the model
  state    TEXT NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'unknown')),
  call_id  TEXT NOT NULL, -- in the audit log; empty for none
  input    INTEGER NOT NULL, -- tokens
  output   INTEGER NOT NULL, -- the same
  cost     INTEGER NOT NULL, -- in cost units
  begun_at INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  ended_at INTEGER NOT NULL, -- the same; 0 until then
  asked    BLOB NOT NULL, -- sealed
  answer   BLOB NOT NULL, -- sealed; empty until the end
  PRIMARY KEY (run, seq)
);

CREATE TABLE members (
  id         TEXT PRIMARY KEY NOT NULL,
  address    TEXT NOT NULL, -- host:port, where the others reach it
  version    TEXT NOT NULL, -- of the program
  wire       INTEGER NOT NULL, -- version of what they say to one another
  draining   INTEGER NOT NULL, -- 1 once it ends
  sessions   INTEGER NOT NULL, -- open legacy sessions, at the last renewal
  calls      INTEGER NOT NULL, -- in flight, at the last renewal
  started_at INTEGER NOT NULL, -- milliseconds since 1970, UTC
  lease      INTEGER NOT NULL -- the same: when the gateway counts as dead
, runs INTEGER NOT NULL DEFAULT 0, jobs INTEGER NOT NULL DEFAULT 0);

CREATE TABLE session_states (
  id    TEXT PRIMARY KEY NOT NULL, -- a hash of the session id
  state BLOB NOT NULL, -- sealed
  at    INTEGER NOT NULL -- milliseconds since 1970, UTC
);

CREATE INDEX session_states_at ON session_states (at);

CREATE TABLE server_claims (
  server TEXT PRIMARY KEY NOT NULL,
  member TEXT NOT NULL
);

CREATE INDEX runs_created ON runs (created_at);

CREATE INDEX runs_state_created ON runs (state, created_at);

CREATE INDEX runs_principal_state ON runs (principal, state, created_at);

CREATE VIEW dynamic_tools_view AS
SELECT d.name, d.registered_by_tenant, 'custom' AS source_type, d.template AS source_url,
  COALESCE((SELECT c.is_enabled FROM tool_catalog c WHERE c.kind = 'tool' AND CAST(c.name AS TEXT) = d.name ORDER BY c.changed_at DESC LIMIT 1), 1) AS enabled,
  strftime('%Y-%m-%dT%H:%M:%SZ', d.created_at / 1000000000, 'unixepoch') AS created_at,
  d.registered_by_persona,
  COALESCE((SELECT CAST(c.schema AS TEXT) FROM tool_catalog c WHERE c.kind = 'tool' AND CAST(c.name AS TEXT) = d.name ORDER BY c.changed_at DESC LIMIT 1), '{}') AS input_schema
FROM dynamic_tools d
UNION ALL
SELECT server, tenant, 'mcp', entry, 1, strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000000, 'unixepoch'), registered_by_persona, '{}'
FROM dynamic_servers;
