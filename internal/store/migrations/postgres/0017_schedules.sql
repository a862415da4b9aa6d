-- Calls that are made at a time, for whoever has planned them. A row is claimed before
-- its call is made, and never goes back.
CREATE TABLE schedules (
  id         TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  principal  BYTEA NOT NULL, -- encoded by the gate
  credential TEXT COLLATE "C" NOT NULL, -- by which the principal was known
  capsule    TEXT COLLATE "C" NOT NULL, -- of the endpoint; empty for none
  tool       TEXT COLLATE "C" NOT NULL, -- as exposed
  arguments  BYTEA NOT NULL, -- a JSON object
  state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('planned', 'running', 'made', 'failed', 'refused', 'missed', 'lost', 'cancelled')),
  due_at     BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  created_at BIGINT NOT NULL, -- the same
  holder     TEXT COLLATE "C" NOT NULL, -- of the claim; empty before
  lease      BIGINT NOT NULL, -- nanoseconds since 1970, UTC: when the holder counts as dead
  ended_at   BIGINT NOT NULL, -- the same; 0 until then
  call_id    TEXT COLLATE "C" NOT NULL, -- of the call in the audit log; empty for none
  result     BYTEA NOT NULL -- what the owner is told
);

CREATE INDEX schedules_due ON schedules (state, due_at);

CREATE INDEX schedules_principal ON schedules (principal, created_at);
