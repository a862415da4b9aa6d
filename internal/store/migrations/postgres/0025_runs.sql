-- Runs of agents and their steps. A step is here before it has an effect, and its end once
-- that is known.
CREATE TABLE runs (
  id         TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  principal  BYTEA NOT NULL, -- encoded by the gate
  credential TEXT COLLATE "C" NOT NULL, -- by which the principal was known
  lasting    BIGINT NOT NULL, -- 1 where its rights can be looked up when it is not there
  capsule    TEXT COLLATE "C" NOT NULL, -- of the endpoint; empty for none
  agent      TEXT COLLATE "C" NOT NULL,
  state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'waiting', 'interrupted', 'limit', 'completed', 'failed', 'cancelled')),
  cancel     BIGINT NOT NULL, -- 1 when somebody has asked for it
  request    BYTEA NOT NULL, -- sealed
  result     BYTEA NOT NULL, -- sealed; empty until there is one
  size       BIGINT NOT NULL, -- of all steps, in bytes
  holder     TEXT COLLATE "C" NOT NULL, -- of the claim; empty where nobody works on it
  lease      BIGINT NOT NULL, -- nanoseconds since 1970, UTC: when the holder counts as dead
  created_at BIGINT NOT NULL, -- the same
  changed_at BIGINT NOT NULL -- the same: of its state
);

CREATE INDEX runs_principal ON runs (principal, created_at);

CREATE INDEX runs_state ON runs (state, changed_at);

CREATE TABLE run_steps (
  run      TEXT COLLATE "C" NOT NULL,
  seq      BIGINT NOT NULL,
  kind     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('inference', 'call', 'function')),
  turn     BIGINT NOT NULL,
  name     TEXT COLLATE "C" NOT NULL, -- of the tool, or of the model
  state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('begun', 'done', 'failed', 'unknown')),
  call_id  TEXT COLLATE "C" NOT NULL, -- in the audit log; empty for none
  input    BIGINT NOT NULL, -- tokens
  output   BIGINT NOT NULL, -- the same
  cost     BIGINT NOT NULL, -- in cost units
  begun_at BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  ended_at BIGINT NOT NULL, -- the same; 0 until then
  asked    BYTEA NOT NULL, -- sealed
  answer   BYTEA NOT NULL, -- sealed; empty until the end
  PRIMARY KEY (run, seq)
);
