-- Whose an execution was: a hash, so that a principal finds its own. Earlier ones are
-- nobody's.
ALTER TABLE tool_execution_log ADD COLUMN principal TEXT NOT NULL DEFAULT '';

CREATE INDEX tool_execution_log_principal ON tool_execution_log (principal, at);
