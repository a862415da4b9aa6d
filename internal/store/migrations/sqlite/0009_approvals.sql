-- Questions to people about calls, and their answers. A grant is for one call
-- with the same arguments.
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
) WITHOUT ROWID;

-- One call has at most one question or grant that is alive.
CREATE UNIQUE INDEX approvals_live ON approvals (principal, capability_id, args_hash)
  WHERE state IN ('pending', 'granted');

CREATE INDEX approvals_state ON approvals (state, asked_at);
