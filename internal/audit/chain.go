package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
	"time"
)

// Key signs the chain of a log. It is derived from a key of the gateway for this
// purpose only.
type Key struct {
	ID     string // in the clear in every [Mark]
	Secret []byte // at least 32 bytes
}

// Head is the last line of a chain, as an anchor stores it.
type Head struct {
	Replica string    // owner of the chain
	Chain   string    // random name of the chain
	Run     string    // random name of the gateway's run that wrote it
	Seq     uint64    // of the line
	MAC     string    // of the line
	Time    time.Time // when it was read
}

// Mark is a line about the chain itself. One stands at the start of every file and
// every run, and wherever lines were torn or lost.
type Mark struct {
	Time    time.Time `json:"time"`
	Replica string    `json:"replica"`
	Chain   string    `json:"chain"`
	Run     string    `json:"run"`
	Key     string    `json:"key"`     // id of the key of this line and those after it
	Prev    string    `json:"prev"`    // MAC of the line before, which may be in another file
	Torn    int64     `json:"torn"`    // bytes before this line that are no lines of the chain
	Lost    uint64    `json:"lost"`    // entries dropped since the previous mark
	Removed string    `json:"removed"` // name of a file that was removed because of its age
	Until   uint64    `json:"until"`   // the last line in that file
}

const (
	sizeMAC = 43 // of 32 bytes, as written
	headSeq = `{"seq":`
	headMAC = `,"mac":"`
	tailMAC = `"}`
	// noMAC is the predecessor of the first line of a chain.
	noMAC = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

var macCoding = base64.RawURLEncoding

// chain numbers and signs lines. The MAC is HMAC-SHA256 over the MAC of the line before
// and the line without its own. The holder of the file owns the chain.
type chain struct {
	mac  hash.Hash
	seq  uint64        // of the last line
	last [sizeMAC]byte // its MAC, as written
	sum  [sha256.Size]byte
}

func newChain(k Key) *chain {
	c := &chain{mac: hmac.New(sha256.New, k.Secret)}
	copy(c.last[:], noMAC)
	return c
}

// seal appends lines, each with its number and MAC.
func (c *chain) seal(out, lines []byte) []byte {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		out = c.link(out, lines[1:end-1]) // without its braces
		lines = lines[end+1:]
	}
	return out
}

// link appends one line with the given members.
func (c *chain) link(out, members []byte) []byte {
	c.seq++
	start := len(out)
	out = append(out, headSeq...)
	out = strconv.AppendUint(out, c.seq, 10)
	out = append(out, ',')
	out = append(out, members...)
	c.mac.Reset()
	c.mac.Write(c.last[:])
	c.mac.Write(out[start:])
	macCoding.Encode(c.last[:], c.mac.Sum(c.sum[:0]))
	out = append(out, headMAC...)
	out = append(out, c.last[:]...)
	return append(out, tailMAC+"\n"...)
}

// follow makes the chain continue after a line.
func (c *chain) follow(seq uint64, mac []byte) {
	c.seq = seq
	copy(c.last[:], mac)
}

// appendMark appends the members of a mark.
func appendMark(b []byte, m *Mark) []byte {
	b = append(b, `"event":"open","time":"`...)
	b = m.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendField(b, `","replica":`, m.Replica)
	b = appendField(b, `,"chain":`, m.Chain)
	b = appendField(b, `,"run":`, m.Run)
	b = appendField(b, `,"key":`, m.Key)
	b = appendField(b, `,"prev":`, m.Prev)
	b = appendNumber(b, `,"torn":`, m.Torn)
	b = append(b, `,"lost":`...)
	b = strconv.AppendUint(b, m.Lost, 10)
	b = appendField(b, `,"removed":`, m.Removed)
	b = append(b, `,"until":`...)
	return strconv.AppendUint(b, m.Until, 10)
}

// link is a parsed line of a chain.
type link struct {
	seq    uint64
	mac    []byte // as written
	signed []byte // covered by the MAC, besides the MAC before
	event  []byte
}

// parseLink parses a line without its newline; ok is false when it is not a line of a
// chain.
func parseLink(line []byte) (l link, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(headSeq))
	if !ok || !bytes.HasSuffix(line, []byte(tailMAC)) {
		return l, false
	}
	digits := bytes.IndexByte(rest, ',')
	signed := len(line) - len(headMAC) - sizeMAC - len(tailMAC)
	if digits < 1 || digits > 20 || signed < len(headSeq)+digits || string(line[signed:signed+len(headMAC)]) != headMAC {
		return l, false
	}
	seq, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	if err != nil || rest[0] == '0' {
		return l, false
	}
	l = link{seq: seq, signed: line[:signed], mac: line[signed+len(headMAC) : len(line)-len(tailMAC)]}
	if event, ok := bytes.CutPrefix(rest[digits:], []byte(`,"event":"`)); ok {
		l.event, _, _ = bytes.Cut(event, []byte(`"`))
	}
	return l, true
}

// callID returns the id of the line's call, as written.
func (l *link) callID() []byte {
	const key = `,"call_id":"`
	_, rest, ok := bytes.Cut(l.signed, []byte(key))
	if !ok {
		return nil
	}
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return id
}

// signs reports whether a line has the right MAC for its predecessor.
func (c *chain) signs(prev string, l *link) bool {
	c.mac.Reset()
	c.mac.Write([]byte(prev))
	c.mac.Write(l.signed)
	var mac [sizeMAC]byte
	macCoding.Encode(mac[:], c.mac.Sum(c.sum[:0]))
	return hmac.Equal(mac[:], l.mac)
}
