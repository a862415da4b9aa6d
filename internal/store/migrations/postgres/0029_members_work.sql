-- What else a gateway has under way, at the last renewal.
ALTER TABLE members ADD COLUMN runs BIGINT NOT NULL DEFAULT 0; -- of agents
ALTER TABLE members ADD COLUMN jobs BIGINT NOT NULL DEFAULT 0; -- in queues
