package files

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// mostEntries bounds the entries of a folder that are read for one page.
const mostEntries = 1_000_000

// Entry is an entry of a folder.
type Entry struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"` // file, folder, link, pipe, socket or device
	Size     int64     `json:"size"` // of a file, in bytes
	Modified time.Time `json:"modified"`
}

// Page is a part of a folder.
type Page struct {
	Entries []Entry
	More    bool // there are names after the last
	Unnamed int  // entries whose names are not valid in paths here
	Cut     bool // the folder has more entries than were read
}

// List returns the entries of a folder after a given name, in byte order, at most most
// of them. It keeps no more than that in memory, however many entries there are.
func (d *Dir) List(ctx context.Context, after string, most int) (Page, error) {
	var page Page
	var names last
	for seen := 0; ; {
		if err := ctx.Err(); err != nil {
			return Page{}, err
		}
		batch, err := d.ReadDir(1024)
		for _, e := range batch {
			name := e.Name()
			switch {
			case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
				page.Unnamed++
			case name > after && len(names) <= most:
				heap.Push(&names, name)
			case name > after && name < names[0]:
				names[0] = name
				heap.Fix(&names, 0)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Page{}, explain(d.Real, err)
		}
		if seen += len(batch); seen >= mostEntries {
			page.Cut = true
			break
		}
	}
	// One name more than fits was kept, to show that there are more.
	if page.More = len(names) > most; page.More {
		heap.Pop(&names)
	}
	page.Entries = make([]Entry, len(names))
	for i := len(names) - 1; i >= 0; i-- {
		name, _ := heap.Pop(&names).(string)
		page.Entries[i] = d.entry(name)
	}
	return page, nil
}

// entry describes an entry of a folder, which may be gone again.
func (d *Dir) entry(name string) Entry {
	info, err := d.root.Lstat(name)
	if err != nil {
		return Entry{Name: name, Kind: "unknown"}
	}
	e := Entry{Name: name, Kind: kind(info.Mode()), Modified: info.ModTime().UTC().Truncate(time.Second)}
	if info.Mode().IsRegular() {
		e.Size = info.Size()
	}
	return e
}

// last is a heap with the greatest name on top.
type last []string

func (l last) Len() int           { return len(l) }
func (l last) Less(i, j int) bool { return l[i] > l[j] }
func (l last) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *last) Push(x any) {
	name, _ := x.(string)
	*l = append(*l, name)
}

// Pop implements heap.Interface.
func (l *last) Pop() any {
	name := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return name
}
