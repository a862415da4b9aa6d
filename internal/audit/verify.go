package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxFindings bounds the findings of one log.
const maxFindings = 100

// Finding is something in a log that the gateway did not write.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1; 0 for none
	Seq  uint64 `json:"seq"`  // number in the line; 0 for none
	Text string `json:"text"`
}

// Report is the result of a verification.
type Report struct {
	Files    int       `json:"files"`
	Lines    uint64    `json:"lines"`  // of chains
	Calls    uint64    `json:"calls"`  // ended calls
	Open     uint64    `json:"open"`   // calls without an end
	Lost     uint64    `json:"lost"`   // entries that the gateway reports as dropped
	Torn     int64     `json:"torn"`   // bytes of incomplete lines that the gateway reports
	Chains   int       `json:"chains"` // number of chains in the files
	Last     uint64    `json:"last"`   // number of the last line
	Head     string    `json:"head"`   // MAC of the last line
	Anchors  int       `json:"anchors"`
	Findings []Finding `json:"findings"`
}

// verifier verifies the lines of a log.
type verifier struct {
	Report
	keys    map[string]*chain
	key     *chain // key of the last mark
	chain   string
	begun   bool // there was a line
	seq     uint64
	last    string
	junk    int64
	junkAt  int
	anchors map[string]map[uint64]string // MACs by number, by chain
	chains  []string                     // in order of appearance
	reached map[string]uint64            // the last number of each chain
	first   map[string]uint64            // the first number of each chain
	removed map[string]uint64            // the last number in removed files
	open    map[string]bool
	file    string
	line    int
}

// Verify checks the files of a log, in order. Every line must match its MAC, the line
// before it, and the anchors. own are anchors of the log's gateway, others those of
// gateways with the same keys. Verify finds changed, removed and inserted lines, a cut
// before the last anchor, and a chain in the wrong place.
func Verify(files []string, keys []Key, own, others []Head) (*Report, error) {
	v := &verifier{
		keys: make(map[string]*chain), anchors: make(map[string]map[uint64]string), reached: make(map[string]uint64),
		first: make(map[string]uint64), removed: make(map[string]uint64), open: make(map[string]bool),
	}
	v.Findings = []Finding{}
	for _, k := range keys {
		v.keys[k.ID] = newChain(k)
	}
	for _, h := range own {
		if v.anchors[h.Chain] == nil {
			v.anchors[h.Chain] = make(map[uint64]string)
		}
		v.anchors[h.Chain][h.Seq] = h.MAC
		v.Anchors++
	}
	for i, name := range files {
		if err := v.read(name, i == len(files)-1); err != nil {
			return nil, err
		}
	}
	v.checkAnchors(own, others)
	return &v.Report, nil
}

// maxVerify bounds how often a log that changes meanwhile is verified again.
const maxVerify = 5

// VerifyLog is [Verify] for the log at path, which may be written and rotated
// meanwhile: if files came or went and there are findings, it starts again. A missing
// file or folder counts as a log without lines, whose anchors are then missing.
func VerifyLog(path string, keys []Key, own, others []Head) (*Report, error) {
	for n := 1; ; n++ {
		files, err := Files(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("verify the audit log: %w", err)
		}
		report, err := Verify(files, keys, own, others)
		if n == maxVerify || err == nil && len(report.Findings) == 0 {
			return report, err
		}
		now, bad := Files(path)
		if bad != nil || slices.Equal(now, files) {
			return report, err
		}
	}
}

func (v *verifier) read(name string, newest bool) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("verify the audit log: %w", err)
	}
	defer f.Close()
	v.file, v.line = filepath.Base(name), 0
	v.Files++
	half := false
	err = eachLine(f, func(line []byte, whole bool) error {
		v.line++
		l, ok := parseLink(line)
		if ok && whole {
			v.check(line, &l)
			return nil
		}
		if v.junk == 0 {
			v.junkAt = v.line
		}
		v.junk += int64(len(line))
		if half = !whole; whole {
			v.junk++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("verify the audit log %s: %w", name, err)
	}
	if newest && half { // being written, or cut by a crash: the next start decides
		v.Torn += v.junk
	} else {
		v.unexplained()
	}
	v.junk = 0
	return nil
}

// check checks one line against the one before it.
func (v *verifier) check(line []byte, l *link) {
	v.Lines++
	if string(l.event) == string(eventOpen) {
		v.mark(line, l)
	} else {
		v.unexplained()
		switch {
		case !v.begun:
			v.find(l.seq, "the file does not begin with a mark: what stood before is gone")
		case l.seq != v.seq+1:
			v.find(l.seq, fmt.Sprintf("it follows line %d: %s", v.seq, gap(v.seq, l.seq)))
		}
		if v.begun && !v.signed(v.last, l) {
			v.find(l.seq, "the line, or its place, is not what was written")
		}
		v.count(l)
	}
	v.begun, v.seq, v.last, v.junk = true, l.seq, string(l.mac), 0
	if mac, ok := v.anchors[v.chain][l.seq]; ok && mac != v.last {
		v.find(l.seq, "it is not the line that was anchored")
	}
	v.reached[v.chain] = max(v.reached[v.chain], l.seq)
	v.Last, v.Head = v.seq, v.last
}

// mark checks a mark against its own content.
func (v *verifier) mark(line []byte, l *link) {
	var m Mark
	if err := json.Unmarshal(line, &m); err != nil {
		v.find(l.seq, "the mark cannot be read: "+err.Error())
		return
	}
	if v.key = v.keys[m.Key]; v.key == nil {
		v.find(l.seq, fmt.Sprintf("it is signed with the key %q, which is not known here", m.Key))
	} else if !v.signed(m.Prev, l) {
		v.find(l.seq, "the mark is not what was written")
	}
	switch fresh := m.Prev == noMAC && l.seq == 1; {
	case v.begun && m.Chain == v.chain && l.seq != v.seq+1:
		v.find(l.seq, fmt.Sprintf("it follows line %d: %s", v.seq, gap(v.seq, l.seq)))
	case v.begun && m.Chain == v.chain && m.Prev != v.last:
		v.find(l.seq, "it does not follow the line before it")
	case v.begun && m.Chain != v.chain && slices.Contains(v.chains, m.Chain):
		v.find(l.seq, fmt.Sprintf("the chain %s comes again behind another one: it is there twice, or was moved", m.Chain))
	case v.begun && m.Chain != v.chain && !fresh:
		v.first[m.Chain] = l.seq // lines before it may have been removed
	}
	if v.junk != m.Torn {
		v.find(l.seq, fmt.Sprintf("%d bytes before it are not lines, and the gateway knows of %d", v.junk, m.Torn))
	}
	if !slices.Contains(v.chains, m.Chain) {
		v.chains = append(v.chains, m.Chain)
		v.Chains++
	}
	if _, known := v.first[m.Chain]; !known {
		v.first[m.Chain] = l.seq
	}
	v.chain = m.Chain
	v.Torn += m.Torn
	v.Lost += m.Lost
	v.removed[m.Chain] = max(v.removed[m.Chain], m.Until)
}

func (v *verifier) signed(prev string, l *link) bool {
	if v.key == nil || len(prev) != sizeMAC {
		return false
	}
	return v.key.signs(prev, l)
}

// count counts the call of a line.
func (v *verifier) count(l *link) {
	switch string(l.event) {
	case string(EventBegin):
		if len(v.open) < maxOpen {
			v.open[string(l.callID())] = true
		}
	case string(EventEnd):
		v.Calls++
		delete(v.open, string(l.callID()))
	}
}

// unexplained reports bytes that no mark explains.
func (v *verifier) unexplained() {
	if v.junk > 0 {
		at := v.line
		v.line = v.junkAt
		v.find(0, fmt.Sprintf("%d bytes that are not a line of the log", v.junk))
		v.line, v.junk = at, 0
	}
}

// checkAnchors checks the whole log against the anchors.
func (v *verifier) checkAnchors(own, others []Head) {
	v.Open = uint64(len(v.open))
	v.line = 0
	for chain, first := range v.first {
		if first > v.removed[chain]+1 {
			v.find(first, fmt.Sprintf("lines 1 to %d of the chain %s are gone, and not for their age", first-1, chain))
		}
	}
	v.checkOrder(own, others)
	for _, h := range own {
		last, known := v.reached[h.Chain]
		switch {
		case !known:
			v.find(h.Seq, fmt.Sprintf("the chain %s, anchored at line %d, is gone", h.Chain, h.Seq))
		case h.Seq > last:
			v.find(h.Seq, fmt.Sprintf("the chain %s ends at line %d and was anchored at line %d: the end is cut off", h.Chain, last, h.Seq))
		}
	}
}

// checkOrder checks that the gateway anchored the chains, in this order.
func (v *verifier) checkOrder(own, others []Head) {
	latest, whose := make(map[string]Head), make(map[string]string)
	for _, h := range own {
		if l, ok := latest[h.Chain]; !ok || h.Time.After(l.Time) {
			latest[h.Chain] = h
		}
	}
	for _, h := range others {
		whose[h.Chain] = h.Replica
	}
	var before Head
	for _, chain := range v.chains {
		h, ok := latest[chain]
		switch {
		case !ok && whose[chain] != "":
			v.find(v.first[chain], fmt.Sprintf("the chain %s is of another gateway, %s", chain, whose[chain]))
		case !ok && len(own) > 0:
			v.find(v.first[chain], fmt.Sprintf("the chain %s was never anchored, as those of this gateway are", chain))
		case ok && h.Time.Before(before.Time):
			v.find(v.first[chain], fmt.Sprintf("the chain %s ended at %s, before the chain %s that it follows: it was moved, or the clock was set back",
				chain, h.Time.UTC().Format(time.RFC3339), before.Chain))
		}
		if ok {
			before = h
		}
	}
}

func (v *verifier) find(seq uint64, text string) {
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, Finding{File: v.file, Line: v.line, Seq: seq, Text: text})
	}
}

func gap(before, now uint64) string {
	switch {
	case now > before+2:
		return fmt.Sprintf("lines %d to %d are gone", before+1, now-1)
	case now == before+2:
		return fmt.Sprintf("line %d is gone", before+1)
	default:
		return "it is there twice, or was moved"
	}
}
