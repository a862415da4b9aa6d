-- Questions to people about calls, and their answers. A grant is for one call
-- with the same arguments.
CREATE TABLE approvals (
  id            TEXT COLLATE "C" PRIMARY KEY NOT NULL,
  principal     BYTEA NOT NULL, -- encoded by the gate
  capability_id TEXT COLLATE "C" NOT NULL,
  args_hash     TEXT COLLATE "C" NOT NULL,
  state         TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'used', 'expired')),
  asked_at      BIGINT NOT NULL, -- nanoseconds since 1970, UTC
  expires_at    BIGINT NOT NULL, -- the same; of the question, then of the grant
  decided_by    TEXT COLLATE "C" NOT NULL,
  reason        TEXT COLLATE "C" NOT NULL,
  decided_at    BIGINT NOT NULL, -- the same; 0 until then
  closed_at     BIGINT NOT NULL -- the same; when it was denied, used or expired, 0 until then
);

-- One call has at most one question or grant that is alive.
CREATE UNIQUE INDEX approvals_live ON approvals (principal, capability_id, args_hash)
  WHERE state IN ('pending', 'granted');

CREATE INDEX approvals_state ON approvals (state, asked_at);
