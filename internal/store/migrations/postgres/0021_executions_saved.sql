-- Statistics say how much smaller results became because they were shaped.

ALTER TABLE tool_execution_log ADD COLUMN bytes_saved BIGINT NOT NULL DEFAULT 0;
