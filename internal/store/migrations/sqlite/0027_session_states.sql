-- What clients up to 2025-11-25 have set for their sessions, so that another gateway can go on
-- with them.
CREATE TABLE session_states (
  id    TEXT PRIMARY KEY NOT NULL, -- a hash of the session id
  state BLOB NOT NULL, -- sealed
  at    INTEGER NOT NULL -- milliseconds since 1970, UTC
);

CREATE INDEX session_states_at ON session_states (at);
