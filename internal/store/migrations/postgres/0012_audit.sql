-- Heads of audit logs: what somebody who can write the files cannot write. A row
-- is one run of one gateway; those of earlier runs stay.
CREATE TABLE audit_anchor (
  replica TEXT COLLATE "C" NOT NULL,
  run     TEXT COLLATE "C" NOT NULL,
  chain   TEXT COLLATE "C" NOT NULL,
  seq     BIGINT NOT NULL, -- of the last line of the run
  mac     TEXT COLLATE "C" NOT NULL,    -- its MAC
  at      BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  PRIMARY KEY (replica, run)
);

-- What was executed, for figures: nothing is decided by it. It is written behind
-- the calls, and the oldest rows are removed.
CREATE TABLE tool_execution_log (
  id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at            BIGINT NOT NULL, -- milliseconds since 1970, UTC
  call_id       TEXT COLLATE "C" NOT NULL,
  server        TEXT COLLATE "C" NOT NULL,
  tool          TEXT COLLATE "C" NOT NULL, -- as exposed
  tenant        TEXT COLLATE "C" NOT NULL,
  persona_id    TEXT COLLATE "C" NOT NULL,
  session_id    TEXT COLLATE "C" NOT NULL, -- a hash
  success       BOOLEAN NOT NULL,
  error_class   TEXT COLLATE "C" NOT NULL, -- empty for a success
  duration_us   BIGINT NOT NULL,
  upstream_us   BIGINT NOT NULL,
  request_size  BIGINT NOT NULL,
  response_size BIGINT NOT NULL,
  args_hash     TEXT COLLATE "C" NOT NULL
);

CREATE INDEX tool_execution_log_at ON tool_execution_log (at);
