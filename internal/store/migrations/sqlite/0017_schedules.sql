-- Calls that are made at a time, for whoever has planned them. A row is claimed before
-- its call is made, and never goes back.
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
