package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Record is a line of a log that was read.
type Record struct {
	Seq uint64 `json:"seq"`
	Entry
	MAC string `json:"mac"`
	// File is the file of the line, Chain its chain.
	File  string `json:"-"`
	Chain string `json:"-"`
}

// UnreadableError means that somebody changed lines, so that they are no entries any
// more. All others were read.
type UnreadableError struct {
	Lines int    // their number
	File  string // of the first of them
	Seq   uint64 // of the first of them
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%d lines of the audit log cannot be read, line %d of %s first: `toolgate audit verify` says more", e.Lines, e.Seq, filepath.Base(e.File))
}

// Read calls fn with the entries in the files of a log, in writing order. It skips what
// is not a line of a chain; [Verify] reports that. An error of fn ends it and is
// returned. An [*UnreadableError] is returned after everything else was read.
func Read(files []string, fn func(*Record) error) error {
	var c cursor
	for _, name := range files {
		if err := c.read(name, fn); err != nil {
			return err
		}
	}
	return c.unreadable()
}

// ReadCall is [Read] for the entries of one call, until ctx ends; an empty id is that of all.
// Lines of other calls are not looked into, which makes it many times faster, and an
// [*UnreadableError] does not count them.
func ReadCall(ctx context.Context, files []string, id string, fn func(*Record) error) error {
	c := cursor{call: id, over: ctx.Err}
	for _, name := range files {
		if err := c.read(name, fn); err != nil {
			return err
		}
	}
	return c.unreadable()
}

// askedLines is after how many lines a reading looks whether it is over.
const askedLines = 256

// cursor is a position in the files of a log.
type cursor struct {
	call   string       // whose lines are read; empty for those of all
	chain  string       // of the lines at the position
	over   func() error // asked now and then; an error of it ends the reading. May be nil
	lines  int
	file   os.FileInfo // nil before the first file
	offset int64       // after the last complete line
	bad    UnreadableError
}

// read calls fn with the entries of a file: from the offset on if the cursor is in this
// file, else from its start.
func (c *cursor) read(name string, fn func(*Record) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	if !c.in(info) {
		c.offset = 0
	} else if _, err := f.Seek(c.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	c.file = info
	var half int64
	return eachLine(f, func(line []byte, whole bool) error {
		if c.lines++; c.over != nil && c.lines%askedLines == 0 {
			if err := c.over(); err != nil {
				return err
			}
		}
		if !whole { // too long, or being written
			half += int64(len(line))
			return nil
		}
		c.offset += half + int64(len(line)) + 1
		half = 0
		l, ok := parseLink(line)
		if !ok {
			return nil
		}
		if string(l.event) == string(eventOpen) {
			var m Mark
			if err := json.Unmarshal(line, &m); err != nil {
				c.noteUnreadable(name, l.seq)
			} else {
				c.chain = m.Chain
			}
			return nil
		}
		if of := l.callID(); c.call != "" && len(of) > 0 && string(of) != c.call {
			return nil
		}
		r := Record{File: name, Chain: c.chain}
		if bad := json.Unmarshal(line, &r); bad != nil {
			c.noteUnreadable(name, l.seq)
			return nil //nolint:nilerr // all others are read, and unreadable says it
		}
		return fn(&r)
	})
}

// in reports whether the cursor is in a file that has not become shorter since.
func (c *cursor) in(info os.FileInfo) bool {
	return c.file != nil && os.SameFile(c.file, info) && info.Size() >= c.offset
}

func (c *cursor) noteUnreadable(name string, seq uint64) {
	if c.bad.Lines++; c.bad.Lines == 1 {
		c.bad.File, c.bad.Seq = name, seq
	}
}

// unreadable returns, once, the error about unreadable lines.
func (c *cursor) unreadable() error {
	if c.bad.Lines == 0 {
		return nil
	}
	bad := c.bad
	c.bad = UnreadableError{}
	return &bad
}

// Follower reads a log while it is written: every entry once, across rotations and new
// chains. The zero value begins with the first entry. It is not safe for concurrent
// use.
type Follower struct {
	cursor
}

// Read is [Read] for the entries since the last call. It is cheap when there are none.
func (f *Follower) Read(path string, fn func(*Record) error) error {
	if info, err := os.Stat(path); err == nil && f.in(info) && info.Size() == f.offset {
		return nil
	}
	files, err := Files(path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	// A file that was rotated meanwhile is still the same file.
	at := slices.IndexFunc(files, func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && f.in(info)
	})
	if at < 0 && f.file != nil {
		at = len(files) - 1 // it is gone, and the rest was read
	}
	for _, name := range files[max(0, at):] {
		if err := f.read(name, fn); err != nil {
			return err
		}
	}
	return f.unreadable()
}

// Closed returns the entries of one file about ended calls and changes, in order.
func Closed(path string) ([]Entry, error) {
	var all []Entry
	err := Read([]string{path}, func(r *Record) error {
		if r.Event != EventBegin {
			all = append(all, r.Entry)
		}
		return nil
	})
	return all, err
}
