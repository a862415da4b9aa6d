-- The latest runs, those in a state, and those of somebody in a state, are listed without a
-- look at all others.
CREATE INDEX runs_created ON runs (created_at);

CREATE INDEX runs_state_created ON runs (state, created_at);

CREATE INDEX runs_principal_state ON runs (principal, state, created_at);
