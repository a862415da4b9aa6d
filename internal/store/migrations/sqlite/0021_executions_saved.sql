-- Statistics say how much smaller results became because they were shaped.

ALTER TABLE tool_execution_log ADD COLUMN bytes_saved INTEGER NOT NULL DEFAULT 0;
