package build

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config"
	"github.com/toolgate/toolgate/config/secret"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/proxy/redact"
)

// resultRules are the rules for the results of a server, as a whole and for single
// tools.
type resultRules struct {
	settings config.Toolgate
	secrets  []string // from the file
}

func newResultRules(c *config.Config, servers []config.Server) *resultRules {
	return &resultRules{settings: c.Toolgate, secrets: KnownSecrets(c, servers, os.LookupEnv)}
}

// NewMounts returns the mounts of the servers, without their backends.
func NewMounts(c *config.Config, servers []config.Server) ([]MountOf, error) {
	rules := newResultRules(c, servers)
	made := make([]MountOf, len(servers))
	for i := range servers {
		m := mount(&servers[i], nil, &c.Toolgate.Limits)
		if err := rules.apply(&m, &servers[i]); err != nil {
			return nil, failure.New(failure.Config, fmt.Errorf("%s: %w", c.Path, err))
		}
		made[i] = MountOf(m)
	}
	return made, nil
}

// MountOf is a mount without its backend.
type MountOf proxy.Mount

// On returns the mount of a backend.
func (m MountOf) On(b proxy.Backend) proxy.Mount {
	m.Backend = b
	return proxy.Mount(m)
}

// apply puts the rules of a server into its mount.
func (r *resultRules) apply(m *proxy.Mount, s *config.Server) error {
	own := s.Results.Over(r.settings.Results)
	search := r.settings.Limits.SearchLimits
	var err error
	if m.Results, err = own.Rules(r.secrets, search); err != nil {
		return fmt.Errorf("results of the server %s: %w", s.Key, err)
	}
	for name, t := range s.Tools {
		if !t.Results.Written() {
			continue
		}
		rules, err := t.Results.Over(own).Rules(r.secrets, search)
		if err != nil {
			return fmt.Errorf("results of the tool %s of the server %s: %w", name, s.Key, err)
		}
		shape := m.Tools[name]
		shape.Rules = &rules
		m.Tools[name] = shape
	}
	return nil
}

// harmless are headers whose values are not secret.
var harmless = []string{"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}

// KnownSecrets returns the secret values in the settings of a gateway and its servers,
// sorted. What was kept outside the file is secret wherever it is used.
func KnownSecrets(c *config.Config, servers []config.Server, lookup func(string) (string, bool)) []string {
	t := &c.Toolgate
	known := map[string]bool{}
	add := func(value string) {
		if value != "" {
			known[value] = true
		}
	}
	for _, value := range c.Secrets {
		add(value.Reveal())
	}
	for i := range servers {
		s := &servers[i]
		for _, value := range s.Secrets {
			add(value.Reveal())
		}
		for name, value := range s.Headers {
			if !slices.Contains(harmless, strings.ToLower(name)) {
				add(value.Reveal())
			}
		}
		for name, value := range s.Env {
			secretsOfVariable(name, value.Reveal(), add)
		}
		for _, name := range inherited(s) {
			if value, ok := lookup(name); ok {
				secretsOfVariable(name, value, add)
			}
		}
	}
	secretsIn(reflect.ValueOf(t).Elem(), add)
	for i := range servers {
		secretsOfURL(servers[i].URL, add)
	}
	for _, text := range []string{t.Redis, t.Store, t.Feedback.Webhook, t.Approvals.Webhook.URL, t.Telemetry.OTLP, t.Find.Embeddings.URL, notifyURL(t)} {
		secretsOfURL(text, add)
	}
	return slices.Sorted(maps.Keys(known))
}

// notifyURL is where messages to users are posted; empty for nowhere.
func notifyURL(t *config.Toolgate) string {
	if t.Native.Notify == nil {
		return ""
	}
	return t.Native.Notify.Webhook.URL
}

// secretsIn finds the secrets below a value of the configuration. In maps, names tell
// secrets from settings. Texts that are only redacted from results do not count.
func secretsIn(v reflect.Value, add func(string)) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := reflect.TypeAssert[secret.Text](v); ok {
			add(text.Reveal())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch value := v.Field(i); {
			case !field.IsExported() || value.Type() == reflect.TypeFor[redact.Settings]():
			case value.Type() == reflect.TypeFor[map[string]secret.Text]():
				for name, text := range value.Interface().(map[string]secret.Text) {
					switch {
					case field.Name == "Env":
						secretsOfVariable(name, text.Reveal(), add)
					case !slices.Contains(harmless, strings.ToLower(name)):
						add(text.Reveal())
					}
				}
			default:
				secretsIn(value, add)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			secretsIn(v.Index(i), add)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			secretsIn(v.MapIndex(key), add)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			secretsIn(v.Elem(), add)
		}
	default: // holds none
	}
}

// OutputChecker checks structured content against the output schemas of servers.
type OutputChecker struct{ Checker *schema.Checker }

// CheckOutput implements [result.OutputChecker].
func (o OutputChecker) CheckOutput(text, value []byte) ([]string, error) {
	s, err := o.compile(text)
	if err != nil {
		return nil, err
	}
	result := s.Check(schema.ReadArguments(value))
	if result.Valid {
		return nil, nil
	}
	problems := make([]string, 0, len(result.Problems)+1)
	for _, p := range result.Problems {
		said := strings.ReplaceAll(p.Problem, "the arguments", "it") // the problem is about the output
		problems = append(problems, "structuredContent"+p.Pointer+": "+said)
	}
	if result.More > 0 {
		problems = append(problems, fmt.Sprintf("and %d more", result.More))
	}
	return problems, nil
}

// Ready implements [result.OutputChecker].
func (o OutputChecker) Ready(text []byte) error {
	_, err := o.compile(text)
	return err
}

func (o OutputChecker) compile(text []byte) (*schema.Schema, error) {
	s, err := o.Checker.Compile(text)
	if q, ok := errors.AsType[*schema.Quarantined](err); ok {
		return nil, fmt.Errorf("the schema was refused: %s", q.Reason)
	}
	return s, err
}
