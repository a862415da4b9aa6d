package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

const (
	// maxLine bounds a line of a chain, in bytes.
	maxLine = 4 << 20
	// maxOpen bounds the open calls of one log.
	maxOpen = 100_000
)

// eachLine calls fn with every line of r without its newline; whole reports whether it
// had one. A line above maxLine comes in pieces. The bytes are valid until fn returns.
func eachLine(r io.Reader, fn func(line []byte, whole bool) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var long []byte
	for {
		piece, err := in.ReadSlice('\n')
		line := piece
		if len(long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, piece...)
			line = long
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxLine:
			continue
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		if n := len(line); n > 0 {
			whole := line[n-1] == '\n'
			if whole {
				n--
			}
			if own := fn(line[:n], whole); own != nil {
				return own
			}
		}
		long = long[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// found is the content of a log file.
type found struct {
	first, last Mark   // marks; empty when there are none
	seq         uint64 // of the last line of the chain
	mac         [sizeMAC]byte
	junk        int64 // bytes after that line that are not of the chain
	cut         bool  // the last of them is an incomplete line
	// openCall are the calls without an end, by their id as written.
	begun map[string]*openCall
	order int
}

type openCall struct {
	order int
	line  []byte
}

// scan reads a whole file, and continues from the files before it, as f describes them.
// MACs are not checked: [Verify] does that.
func (f *found) scan(r io.Reader) error {
	f.junk, f.cut = 0, false
	return eachLine(r, func(line []byte, whole bool) error {
		l, ok := parseLink(line)
		if !ok || !whole {
			f.junk += int64(len(line))
			if f.cut = !whole; whole {
				f.junk++
			}
			return nil
		}
		f.seq, f.junk = l.seq, 0
		copy(f.mac[:], l.mac)
		switch string(l.event) {
		case string(eventOpen):
			var m Mark
			if err := json.Unmarshal(line, &m); err != nil {
				return nil //nolint:nilerr // whoever changed it must not keep the gateway from starting; Verify finds it
			}
			f.last = m
			if f.first.Chain == "" {
				f.first = f.last
			}
		case string(EventBegin):
			if f.begun != nil && len(f.begun) < maxOpen {
				f.order++
				f.begun[string(l.callID())] = &openCall{f.order, append([]byte(nil), line...)}
			}
		case string(EventEnd):
			delete(f.begun, string(l.callID()))
		}
		return nil
	})
}
