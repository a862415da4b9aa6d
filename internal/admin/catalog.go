package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxCatalogBody bounds a request about the catalog, in bytes.
const maxCatalogBody = 16 << 20

// CatalogEntry is one capability of the catalog.
type CatalogEntry struct {
	ID             string          `json:"capability_id"`
	Name           string          `json:"name"`
	Kind           string          `json:"kind"`
	Server         string          `json:"server"`
	Original       string          `json:"original_name"`
	DisplayName    string          `json:"display_name,omitempty"`
	Category       string          `json:"category,omitempty"`
	Provider       string          `json:"provider"` // mcp, native or external
	Source         string          `json:"source"`   // discovery, dynamic, shipped, seed or operator
	State          string          `json:"state"`
	Enabled        bool            `json:"enabled"`
	Decided        bool            `json:"decided"` // somebody decided whether it is enabled
	Class          string          `json:"class"`   // effective
	Said           string          `json:"said_class,omitempty"`
	Risk           string          `json:"risk,omitempty"`
	HighCost       bool            `json:"high_cost,omitempty"`
	Flagged        []string        `json:"flagged,omitempty"`
	Tenants        map[string]bool `json:"tenants,omitempty"`
	DeniedPersonas []string        `json:"deny_personas,omitempty"`
	// AllowedPersonas have of this kind only what is allowed to them, such as this.
	AllowedPersonas []string        `json:"allow_personas,omitempty"`
	Config          json.RawMessage `json:"config,omitempty"`  // the operator's settings for it
	InMode          string          `json:"in_mode,omitempty"` // pass or ask, by the mode of the query
	Tokens          int             `json:"tokens,omitempty"`  // about what a tool costs a model, where it is listed
	Actor           string          `json:"actor"`
	Reason          string          `json:"reason,omitempty"`
	FirstSeen       time.Time       `json:"first_seen"`
	ChangedAt       time.Time       `json:"changed_at"`
	Hash            string          `json:"definition_hash,omitempty"`
	HeldHash        string          `json:"held_hash,omitempty"`
	Version         string          `json:"version,omitempty"` // of the accepted definition
	// Only a single entry has the following members.
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
	Held        json.RawMessage `json:"held_definition,omitempty"`
	Diff        string          `json:"diff,omitempty"` // from the accepted definition to the held one
}

// AcceptedDefinition is a definition that was accepted of a capability.
type AcceptedDefinition struct {
	Hash       string          `json:"hash"`
	Version    string          `json:"version,omitempty"`
	Current    bool            `json:"current"` // it is the accepted one
	AcceptedAt time.Time       `json:"accepted_at"`
	Actor      string          `json:"actor"`
	Reason     string          `json:"reason,omitempty"`
	Definition json.RawMessage `json:"definition"`
}

// CatalogQuery selects entries; an empty field selects all.
type CatalogQuery struct {
	Server, Kind, State, Category, Provider, Source string
	Class, Risk                                     string // effective
	// Mode selects what a call may pass in this mode; what needs an approval then is
	// selected, too.
	Mode string
}

// The changes of the catalog.
const (
	CatalogEnable     = "enable"
	CatalogDisable    = "disable"
	CatalogFlag       = "flag"
	CatalogUnflag     = "unflag"
	CatalogRestrict   = "restrict"
	CatalogAllow      = "allow"
	CatalogUnrestrict = "unrestrict"
	CatalogClassify   = "classify"
	CatalogAccept     = "accept"
	CatalogForget     = "forget"
)

// CatalogChange is one change of one capability.
type CatalogChange struct {
	Op      string `json:"op"`
	Name    string `json:"name"` // exposed name, id, or server/original
	Kind    string `json:"kind,omitempty"`
	Tenant  string `json:"tenant,omitempty"`    // for flag and unflag
	On      bool   `json:"on,omitempty"`        // for flag
	Persona string `json:"persona,omitempty"`   // for restrict, allow and unrestrict
	Class   string `json:"class,omitempty"`     // for classify
	Risk    string `json:"risk,omitempty"`      // for classify
	Costly  bool   `json:"high_cost,omitempty"` // for classify
	Hash    string `json:"held_hash,omitempty"` // for accept: the definition that was reviewed
	Actor   string `json:"actor"`
	Reason  string `json:"reason,omitempty"`
}

// CatalogSeed applies a seed file to the catalog.
type CatalogSeed struct {
	File   string `json:"file"` // its name, for messages
	Data   []byte `json:"data"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
}

// CatalogSeeded is the result of a seed.
type CatalogSeeded struct {
	Applied   int      `json:"applied"`
	Unmatched []string `json:"unmatched"` // entries that match nothing
}

// NoEntryError tells that not one entry has a name, and not that the catalog cannot be read.
type NoEntryError struct{ Err error }

// Error implements error.
func (e *NoEntryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NoEntryError) Unwrap() error { return e.Err }

// Cataloger is a [Gateway] whose catalog can be managed. Errors are for people.
type Cataloger interface {
	Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error)
	// CatalogEntry returns one entry, or a [NoEntryError].
	CatalogEntry(ctx context.Context, name, kind string) (CatalogEntry, error)
	// CatalogHistory returns the accepted definitions of a capability, the latest first.
	CatalogHistory(ctx context.Context, name, kind string) ([]AcceptedDefinition, error)
	ChangeCatalog(ctx context.Context, c CatalogChange) (CatalogEntry, error)
	SeedCatalog(ctx context.Context, s CatalogSeed) (CatalogSeeded, error)
}

// handleCataloger serves the catalog.
func handleCataloger(mux *router, c Cataloger) {
	mux.HandleFunc("GET /v1/catalog", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		all, err := c.Catalog(r.Context(), CatalogQuery{
			Server: q.Get("server"), Kind: q.Get("kind"), State: q.Get("state"), Category: q.Get("category"), Provider: q.Get("provider"),
			Source: q.Get("source"), Class: q.Get("class"), Risk: q.Get("risk"), Mode: q.Get("mode"),
		})
		writeFound(w, all, err)
	})
	mux.HandleFunc("GET /v1/catalog/entry", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		e, err := c.CatalogEntry(r.Context(), q.Get("name"), q.Get("kind"))
		writeFound(w, e, err)
	})
	mux.HandleFunc("GET /v1/catalog/history", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		all, err := c.CatalogHistory(r.Context(), q.Get("name"), q.Get("kind"))
		writeFound(w, all, err)
	})
	mux.HandleFunc("POST /v1/catalog/change", func(w http.ResponseWriter, r *http.Request) {
		var change CatalogChange
		if err := readJSON(r, &change); err != nil {
			writeFound(w, nil, err)
			return
		}
		e, err := c.ChangeCatalog(r.Context(), change)
		writeFound(w, e, err)
	})
	mux.HandleFunc("POST /v1/catalog/seed", func(w http.ResponseWriter, r *http.Request) {
		var seed CatalogSeed
		if err := readJSON(r, &seed); err != nil {
			writeFound(w, nil, err)
			return
		}
		did, err := c.SeedCatalog(r.Context(), seed)
		writeFound(w, did, err)
	})
}

// readJSON reads a body that the client of this package sent.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCatalogBody+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxCatalogBody:
		return errors.New("the request is too large")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errors.New("the request is not understood; use the toolgate of the gateway's own version")
	}
	return nil
}

// Catalog lists the catalog, sorted by name.
func (c *Client) Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error) {
	var out []CatalogEntry
	query := url.Values{
		"server": {q.Server}, "kind": {q.Kind}, "state": {q.State}, "category": {q.Category}, "provider": {q.Provider},
		"source": {q.Source}, "class": {q.Class}, "risk": {q.Risk}, "mode": {q.Mode},
	}
	err := c.do(ctx, http.MethodGet, "/v1/catalog?"+query.Encode(), &out)
	return out, err
}

// CatalogEntry returns one capability with its definitions. An empty kind is
// any.
func (c *Client) CatalogEntry(ctx context.Context, name, kind string) (CatalogEntry, error) {
	var out CatalogEntry
	err := c.do(ctx, http.MethodGet, "/v1/catalog/entry?"+url.Values{"name": {name}, "kind": {kind}}.Encode(), &out)
	return out, err
}

// CatalogHistory returns the accepted definitions of a capability, the latest first.
func (c *Client) CatalogHistory(ctx context.Context, name, kind string) ([]AcceptedDefinition, error) {
	var out []AcceptedDefinition
	err := c.do(ctx, http.MethodGet, "/v1/catalog/history?"+url.Values{"name": {name}, "kind": {kind}}.Encode(), &out)
	return out, err
}

// ChangeCatalog changes one capability and returns its new state.
func (c *Client) ChangeCatalog(ctx context.Context, change CatalogChange) (CatalogEntry, error) {
	var out CatalogEntry
	err := c.post(ctx, "/v1/catalog/change", change, &out)
	return out, err
}

// SeedCatalog applies a seed file.
func (c *Client) SeedCatalog(ctx context.Context, seed CatalogSeed) (CatalogSeeded, error) {
	var out CatalogSeeded
	err := c.post(ctx, "/v1/catalog/seed", seed, &out)
	return out, err
}

// post sends a body and reads the answer.
func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://toolgate"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set(headerToken, c.Token)
	if err := r.Write(conn); err != nil {
		return unanswered(ctx, err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return apiError(resp)
	}
	return unanswered(ctx, json.NewDecoder(io.LimitReader(resp.Body, maxCatalogBody)).Decode(out))
}
