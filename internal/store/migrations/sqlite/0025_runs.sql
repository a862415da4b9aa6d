-- Runs of agents and their steps. A step is here before it has an effect, and its end once
-- that is known.
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
