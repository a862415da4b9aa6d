-- Heads of audit logs: what somebody who can write the files cannot write. A row
-- is one run of one gateway; those of earlier runs stay.
CREATE TABLE audit_anchor (
  replica TEXT NOT NULL,
  run     TEXT NOT NULL,
  chain   TEXT NOT NULL,
  seq     INTEGER NOT NULL, -- of the last line of the run
  mac     TEXT NOT NULL,    -- its MAC
  at      INTEGER NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (replica, run)
) WITHOUT ROWID;

-- What was executed, for figures: nothing is decided by it. It is written behind
-- the calls, and the oldest rows are removed.
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
);

CREATE INDEX tool_execution_log_at ON tool_execution_log (at);
