package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
)

// Anybody who can write the folder can choose names, so a name proves nothing. A file
// is as old as its last line, and the chain reports only its lines as removed.
func TestNamesDoNotMakeFilesOld(t *testing.T) {
	path, anchors := filled(t)
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	forged := path + ".20200101T000000Z-99999999"
	if err := os.WriteFile(forged, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	renamed := path + ".20200101T000000Z-7"
	if err := os.Rename(files[1], renamed); err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Replica: "r", Fsync: audit.FsyncNone, Keep: 24 * time.Hour, Anchor: anchors.put})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{forged, renamed} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the file that somebody named %s is removed: %v", filepath.Base(name), err)
		}
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, path, anchors.all()); len(got.Findings) == 0 {
		list, _ := os.ReadDir(dir)
		t.Errorf("that the first file is gone is not found: %+v, %v", got, list)
	}
}

// The removal of a file is logged before it: whenever the gateway is killed, nothing is
// missing without a mark.
func TestRemovalIsWrittenFirst(t *testing.T) {
	path, anchors := filled(t)
	files, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(path, audit.Options{Key: audit.TestKey, Replica: "r", Fsync: audit.FsyncNone, Keep: time.Hour, Anchor: anchors.put})
	if err != nil {
		t.Fatal(err)
	}
	audit.Prune(l, time.Now().Add(2*time.Hour))
	// Nothing is written from here on, as after a kill.
	marks := bytes.Count(read(t, path), []byte(`"removed":"audit.jsonl.`))
	if _, err := os.Stat(files[0]); err == nil || marks == 0 {
		t.Errorf("removed (%v), and the log has %d marks that say so", err, marks)
	}
	left, err := audit.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := audit.Verify(left, []audit.Key{audit.TestKey}, nil, nil); err != nil || len(got.Findings) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
