package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func (r *RegistryRecord) check() error {
	for _, name := range []struct{ what, value string }{
		{"id", r.ID}, {"kind", r.Kind}, {"server", r.Server}, {"source", r.Source},
	} {
		if err := checkName(name.what, name.value); err != nil {
			return err
		}
	}
	for _, text := range []struct{ what, value string }{
		{"risk", r.Class.Risk}, {"definition hash", r.DefinitionHash}, {"accepted hash", r.AcceptedHash}, {"held hash", r.HeldHash},
	} {
		if err := checkText(text.what, text.value, maxName); err != nil {
			return err
		}
	}
	switch {
	case r.Original == "" || r.Name == "":
		return errors.New("the original or the exposed name is empty")
	case !slices.Contains([]string{ProviderMCP, ProviderNative, ProviderExternal}, r.Provider):
		return fmt.Errorf("there is no provider %.64q", r.Provider)
	case !slices.Contains([]string{StateActive, StateHeld, StateOrphaned}, r.State):
		return fmt.Errorf("there is no state %.64q", r.State)
	case r.tooLarge():
		return ErrTooLarge
	}
	return r.Change.check()
}

func (r *RegistryRecord) tooLarge() bool {
	return len(r.Original) > maxCapabilityKey || len(r.Name) > maxCapabilityKey || len(r.DisplayName) > maxProse ||
		len(r.Description) > maxProse || len(r.Category) > maxName || len(r.Schema) > maxDefinition || len(r.Config) > maxConfig ||
		len(r.Definition) > maxDefinition || len(r.HeldDefinition) > maxDefinition || len(r.Flagged) > maxFlagged
}

// writeRegistry inserts or replaces records.
func writeRegistry(ctx context.Context, tx *Tx, records []RegistryRecord) error {
	seen := make(map[string]bool, len(records))
	for i := range records {
		r := &records[i]
		if err := r.check(); err != nil {
			return fmt.Errorf("write %s %.64q of %.64q to the registry: %w", r.Kind, r.Original, r.Server, err)
		}
		if seen[r.ID] {
			return fmt.Errorf("write the registry: %s is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	now := time.Now()
	for some := range slices.Chunk(records, rowsPerStatement) {
		if err := writeSome(ctx, tx, some, now); err != nil {
			return fmt.Errorf("write %d capabilities to the registry: %w", len(records), err)
		}
		if err := remember(ctx, tx, some, now); err != nil {
			return err
		}
	}
	var all int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM tool_catalog`).Scan(&all); err != nil {
		return fmt.Errorf("count the registry: %w", err)
	}
	if all > maxRegistry {
		return fmt.Errorf("write %d capabilities to the registry, which keeps %d: %w", len(records), maxRegistry, ErrTooMany)
	}
	return nil
}

// registryColumnNames are the names in registryColumns.
var registryColumnNames = strings.FieldsFunc(registryColumns, func(r rune) bool { return strings.ContainsRune(", \n\t", r) })

// upsertRegistry is the end of the upsert statement.
var upsertRegistry = func() string {
	var set []string
	for _, name := range registryColumnNames {
		if name != "capability_id" && name != "first_seen" {
			set = append(set, name+" = excluded."+name)
		}
	}
	return ` ON CONFLICT (capability_id) DO UPDATE SET ` + strings.Join(set, ", ")
}()

func writeSome(ctx context.Context, tx *Tx, records []RegistryRecord, now time.Time) error {
	args := make([]any, 0, len(registryColumnNames)*len(records))
	for i := range records {
		r := &records[i]
		flagged, err := json.Marshal(r.Flagged)
		if err != nil {
			return err
		}
		first := r.FirstSeen
		if first.IsZero() {
			first = now
		}
		args = append(args, r.ID, r.Kind, r.Server, foreign(r.Original), foreign(r.Name),
			Readable(r.DisplayName), Readable(r.Description), Readable(r.Category), r.Schema, r.Config,
			r.Enabled, r.Provider, r.Source, r.Class.Risk, r.Class.ReadOnly, r.Class.Destructive, r.Class.HighCost,
			r.State, r.Definition, r.DefinitionHash, r.AcceptedHash, r.HeldDefinition, r.HeldHash, string(flagged),
			r.Actor, r.Reason, nanos(first), nanos(now))
	}
	row := "(" + repeated("?", ", ", len(registryColumnNames)) + ")"
	_, err := tx.Exec(ctx, `INSERT INTO tool_catalog (`+registryColumns+`) VALUES `+repeated(row, ", ", len(records))+upsertRegistry, args...)
	return err
}

// getRegistry returns the record of id.
func getRegistry(ctx context.Context, tx *Tx, id string) (RegistryRecord, bool, error) {
	records, err := readRegistry(ctx, tx, ` WHERE capability_id = ?`, id)
	if err != nil || len(records) == 0 {
		return RegistryRecord{}, false, err
	}
	return records[0], true, nil
}

// readRegistry returns the records that a condition selects.
func readRegistry(ctx context.Context, tx *Tx, condition string, args ...any) ([]RegistryRecord, error) {
	rows, err := tx.Query(ctx, `SELECT `+registryColumns+` FROM tool_catalog`+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("read the registry: %w", err)
	}
	defer rows.Close()
	var records []RegistryRecord
	for rows.Next() {
		var r RegistryRecord
		var flagged []byte
		var first, changed int64
		err := rows.Scan(&r.ID, &r.Kind, &r.Server, &r.Original, &r.Name, &r.DisplayName, &r.Description, &r.Category,
			&r.Schema, &r.Config, &r.Enabled, &r.Provider, &r.Source, &r.Class.Risk, &r.Class.ReadOnly,
			&r.Class.Destructive, &r.Class.HighCost, &r.State, &r.Definition, &r.DefinitionHash, &r.AcceptedHash,
			&r.HeldDefinition, &r.HeldHash, &flagged, &r.Actor, &r.Reason, &first, &changed)
		if err != nil {
			return nil, fmt.Errorf("read the registry: %w", err)
		}
		if err := json.Unmarshal(flagged, &r.Flagged); err != nil {
			return nil, fmt.Errorf("read why capability %s is flagged: %w", r.ID, err)
		}
		r.FirstSeen, r.ChangedAt = instant(first), instant(changed)
		records = append(records, r)
	}
	return records, rows.Err()
}
