-- What people are shown of a call that they are asked about. The arguments are
-- kept only while an answer is awaited or a grant can be used.
ALTER TABLE approvals ADD COLUMN details TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN arguments TEXT COLLATE "C" NOT NULL DEFAULT '';
