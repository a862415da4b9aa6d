package fs

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/toolgate/toolgate/native/plugins/files"
	"github.com/toolgate/toolgate/native/toolapi"
)

// part is the result of read_file.
type part struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Offset     int64  `json:"offset"`
	Length     int64  `json:"length"`
	Size       int64  `json:"size"`
	Modified   string `json:"modified"`
	NextOffset int64  `json:"next_offset,omitempty"`
}

func (s *service) read(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
	p := part{Encoding: "auto"}
	length := s.max
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"path": &p.Path, "offset": &p.Offset, "length": &length, "encoding": &p.Encoding}); err != nil {
		return toolapi.Result{}, err
	}
	if p.Offset < 0 || length < 1 || p.Encoding != "auto" && p.Encoding != "text" && p.Encoding != "base64" {
		return toolapi.Result{}, toolapi.Problemf("offset is 0 or more, length 1 or more, and encoding auto, text or base64.")
	}
	f, err := s.tree.Open(p.Path)
	if err != nil {
		return toolapi.Result{}, err
	}
	defer f.Close()
	p.Size, p.Modified = f.Info.Size(), f.Info.ModTime().UTC().Format("2006-01-02T15:04:05Z")
	// The length is bounded before anything is read: a file may be sparse, or may grow
	// while it is read.
	data, err := io.ReadAll(io.NewSectionReader(f, p.Offset, max(0, min(length, s.max, p.Size-p.Offset))))
	if err != nil {
		return toolapi.Result{}, toolapi.Problemf("%q cannot be read: %v.", p.Path, errors.Unwrap(err))
	}
	if err := p.encode(data); err != nil {
		return toolapi.Result{}, err
	}
	if end := p.Offset + p.Length; end < p.Size && p.Length > 0 {
		p.NextOffset = end
	}
	result, err := toolapi.Answer(p)
	if p.Encoding == "text" && p.Content != "" {
		result.Text = p.Content
	}
	return result, err
}

// encode sets the content from bytes. Text ends with a whole character.
func (p *part) encode(data []byte) error {
	if p.Encoding != "base64" {
		text := data
		if p.Offset+int64(len(data)) < p.Size {
			text = whole(data)
		}
		if readable(text) && (len(text) > 0 || len(data) == 0) {
			p.Content, p.Encoding, p.Length = string(text), "text", int64(len(text))
			return nil
		}
		if p.Encoding == "text" {
			return toolapi.Problemf("%q is not UTF-8 text at these bytes; read it with the encoding base64.", p.Path)
		}
	}
	p.Content, p.Encoding, p.Length = base64.StdEncoding.EncodeToString(data), "base64", int64(len(data))
	return nil
}

// whole removes an incomplete character at the end.
func whole(data []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(data)); i++ {
		if b := data[len(data)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return data[:len(data)-i]
			}
			break
		}
	}
	return data
}

// readable tells whether bytes are text.
func readable(data []byte) bool {
	return utf8.Valid(data) && !slices.Contains(data, 0)
}

// listing is the result of list_directory.
type listing struct {
	Path      string        `json:"path"`
	Entries   []files.Entry `json:"entries"`
	NextAfter string        `json:"next_after,omitempty"`
	Unnamed   int           `json:"unnamed,omitempty"`
	Cut       bool          `json:"cut,omitempty"`
}

func (s *service) list(ctx context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var l listing
	after, limit := "", 200
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"path": &l.Path, "after": &after, "limit": &limit}); err != nil {
		return toolapi.Result{}, err
	}
	if limit < 1 || limit > 1000 {
		return toolapi.Result{}, toolapi.Problemf("limit is between 1 and 1000.")
	}
	d, err := s.tree.OpenDir(l.Path)
	if err != nil {
		return toolapi.Result{}, err
	}
	defer d.Close()
	page, err := d.List(ctx, after, limit)
	if err != nil {
		return toolapi.Result{}, err
	}
	l.Entries, l.Unnamed, l.Cut = page.Entries, page.Unnamed, page.Cut
	if page.More {
		l.NextAfter = page.Entries[len(page.Entries)-1].Name
	}
	return toolapi.Answer(l)
}

func (s *service) write(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var path, content string
	encoding := "text"
	var c files.Change
	err := toolapi.Read(call.Arguments, toolapi.Fields{
		"path": &path, "content": &content, "encoding": &encoding, "create_only": &c.New, "create_folders": &c.Folders,
	})
	if err != nil {
		return toolapi.Result{}, err
	}
	switch encoding {
	case "text":
		c.Data = []byte(content)
	case "base64":
		if c.Data, err = base64.StdEncoding.DecodeString(content); err != nil {
			return toolapi.Result{}, toolapi.Problemf("The content is not base64: %v.", err)
		}
	default:
		return toolapi.Result{}, toolapi.Problemf("encoding is text or base64.")
	}
	if int64(len(c.Data)) > s.max {
		return toolapi.Result{}, toolapi.Problemf("The content has %d bytes; at most %d are allowed.", len(c.Data), s.max)
	}
	replaced, err := s.tree.Write(path, c)
	if err != nil {
		return toolapi.Result{}, err
	}
	return toolapi.Answer(struct {
		Path     string `json:"path"`
		Size     int    `json:"size"`
		Replaced bool   `json:"replaced"`
	}{path, len(c.Data), replaced})
}

func (s *service) remove(_ context.Context, call *toolapi.Call) (toolapi.Result, error) {
	var path string
	if err := toolapi.Read(call.Arguments, toolapi.Fields{"path": &path}); err != nil {
		return toolapi.Result{}, err
	}
	if err := s.tree.Remove(path); err != nil {
		return toolapi.Result{}, err
	}
	return toolapi.Answer(struct {
		Path    string `json:"path"`
		Deleted bool   `json:"deleted"`
	}{path, true})
}
