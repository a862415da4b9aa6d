package audit

import (
	"encoding/json"
	"fmt"
	"os"
)

// Record is a line of a log as it is read.
type Record struct {
	Seq uint64 `json:"seq"`
	Entry
	MAC string `json:"mac"`
	// File is where the line stands.
	File string `json:"-"`
}

// Read calls fn with the entries in the files of a log, in the order in which
// they were written. What is no line of a chain is passed over: to find that is
// for [Verify]. An error of fn ends it and is returned.
func Read(files []string, fn func(*Record) error) error {
	for _, name := range files {
		if err := readFile(name, fn); err != nil {
			return err
		}
	}
	return nil
}

func readFile(name string, fn func(*Record) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	return eachLine(f, func(line []byte, whole bool) error {
		l, ok := parseLink(line)
		if !ok || !whole || string(l.event) == string(eventOpen) {
			return nil
		}
		r := Record{File: name}
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read the audit log %s: line %d: %w", name, l.seq, err)
		}
		return fn(&r)
	})
}

// Closed returns the entries of one file that are about calls which have ended
// and about changes, in their order.
func Closed(path string) ([]Entry, error) {
	var all []Entry
	err := readFile(path, func(r *Record) error {
		if r.Event != EventBegin {
			all = append(all, r.Entry)
		}
		return nil
	})
	return all, err
}
