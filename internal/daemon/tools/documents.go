package tools

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/internal/egress"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/native/declared"
)

// This file checks the documents of tools at addresses, and keeps copies of them.

// read checks a document on its own.
func (s *source) read(data []byte) (*document, error) {
	sum := sha256.Sum256(data)
	doc := &document{sum: hex.EncodeToString(sum[:]), data: data}
	if s.set.SHA256 != "" && !strings.EqualFold(doc.sum, s.set.SHA256) {
		return nil, fmt.Errorf("its document has the sha256 %s, and not the one that is written", doc.sum)
	}
	var err error
	if doc.tools, err = config.ParseTools(s.name(), data); err != nil {
		return nil, err
	}
	if s.set.SHA256 != "" {
		return doc, nil
	}
	for i := range doc.tools {
		if err := s.unpinned(&doc.tools[i]); err != nil {
			return nil, fmt.Errorf("the tool %q: %w", doc.tools[i].Name, err)
		}
	}
	return doc, nil
}

var (
	errCommand = errors.New("it is a command, and commands need the sha256 of the document in tool_urls")
	errSteps   = errors.New("it calls other tools, and steps need the sha256 of the document in tool_urls")
	errPrivate = errors.New("it reaches an address that is not of the public internet and not the document's own, which needs the sha256 of the document in tool_urls")
)

// unpinned refuses tools that a document may contain only if a person has written its
// hash: those that run here or call other tools, and those that reach addresses closed to
// others.
func (s *source) unpinned(t *declared.Settings) error {
	switch t.Type {
	case "http":
	case "steps":
		return errSteps
	default:
		return errCommand
	}
	if len(t.AllowAddresses) > 0 {
		return errPrivate
	}
	target, err := egress.ParseTemplate(t.URL)
	if err != nil {
		return err
	}
	own, err := egress.ParseTemplate(s.set.URL)
	if err != nil {
		return err
	}
	to, from := target.Policy(), own.Policy()
	if len(to.Allow) > 0 && (!slices.Equal(to.AllowHosts, from.AllowHosts) || !slices.Equal(to.Ports, from.Ports)) {
		return errPrivate
	}
	return nil
}

// keptDocument is the file of a copy.
type keptDocument struct {
	URL  string `json:"url"`
	Data []byte `json:"data"`
	MAC  []byte `json:"mac"`
}

// authenticated returns the bytes that the MAC of a copy covers.
func (k *keptDocument) authenticated() []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(len(k.URL)))
	return append(append(out, k.URL...), k.Data...)
}

// file returns the name of the copy in the state folder.
func (s *source) file() string {
	sum := sha256.Sum256([]byte(s.set.URL))
	return "tools-" + hex.EncodeToString(sum[:8])
}

// load returns the stored copy; nil for none.
func (s *source) load(dir string, keys *seal.Keyring) (*document, error) {
	text, err := os.ReadFile(filepath.Join(dir, s.file()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a missing copy is not an error
	}
	if err != nil {
		return nil, err
	}
	var k keptDocument
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err = errors.Join(err, json.Unmarshal(raw, &k)); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if k.URL != s.set.URL || !keys.Verify(documentPurpose, k.authenticated(), k.MAC) {
		return nil, errors.New("it is not genuine")
	}
	return s.read(k.Data)
}

// save stores a copy of the document in force; the caller holds mu.
func (s *source) save(o *Options) {
	k := keptDocument{URL: s.set.URL, Data: s.kept.data}
	k.MAC = o.Keys.MAC(documentPurpose, k.authenticated())
	raw, err := json.Marshal(k)
	if err == nil {
		err = o.State.Replace(s.file(), base64.StdEncoding.EncodeToString(raw))
	}
	if err != nil {
		o.Log.Warn("no copy of tools is kept; the next start has them only when their address answers", "address", s.name(), "err", err)
	}
}
