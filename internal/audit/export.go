package audit

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Formats are the export formats.
var Formats = []string{"jsonl", "csv", "ocsf"}

// NewExporter returns a function that writes entries to w, and one that ends the
// export. version is the gateway's.
func NewExporter(w io.Writer, format, version string) (write func(*Record) error, end func() error, err error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	switch format {
	case "jsonl":
		return func(r *Record) error { return enc.Encode(r) }, func() error { return nil }, nil
	case "ocsf":
		return func(r *Record) error { return enc.Encode(ocsf(r, version)) }, func() error { return nil }, nil
	case "csv":
		table := csv.NewWriter(w)
		end := func() error { table.Flush(); return table.Error() }
		return func(r *Record) error { return table.Write(csvRow(r)) }, end, table.Write(csvHeader)
	}
	return nil, nil, fmt.Errorf("there is no format %q; write jsonl, csv or ocsf", format)
}

var csvHeader = []string{
	"time", "seq", "event", "call_id", "decision", "outcome", "code", "reason", "phase", "rule", "issuer", "tenant", "subject", "persona",
	"client", "transport", "method", "kind", "name", "server", "original_name", "args_hash", "rounds", "duration_us", "gateway_us",
	"upstream_us", "bytes_in", "bytes_out", "trace_id",
}

func csvRow(r *Record) []string {
	by := r.Decider()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	row := []string{
		r.Time.UTC().Format(time.RFC3339Nano), strconv.FormatUint(r.Seq, 10), string(r.Event), r.CallID, r.Decision(), string(r.Outcome),
		r.Code, r.Reason, by.Phase, by.Rule, r.Principal.Issuer, r.Principal.Tenant, r.Principal.Subject, r.Principal.Persona,
		r.Client.Name, r.Transport, r.Method, r.Kind, r.Name, r.Server, r.OriginalName, r.ArgsHash, number(int64(r.Rounds)),
		number(r.DurationUS), number(r.GatewayUS), number(r.UpstreamUS), number(r.BytesIn), number(r.BytesOut), r.TraceID,
	}
	for i, cell := range row {
		row[i] = csvCell(cell)
	}
	return row
}

// csvCell returns a cell that no spreadsheet takes for a formula, because names are
// chosen by others.
func csvCell(cell string) string {
	if cell == "" {
		return cell
	}
	switch cell[0] {
	case '=', '+', '@', '\t', '\r':
		return "'" + cell
	case '-':
		if _, err := strconv.ParseInt(cell, 10, 64); err != nil {
			return "'" + cell
		}
	}
	return cell
}

// ocsf returns an entry as an event of the class API Activity of the Open Cybersecurity
// Schema Framework, version 1.3.0, with the profile Security Control for the decision.
func ocsf(r *Record, version string) map[string]any {
	const class, activity = 6003, 99 // API Activity, Other
	severity, status, statusID := 1, "Success", 1
	switch r.Outcome {
	case OutcomeOK:
	case OutcomeDenied:
		severity, status, statusID = 3, "Failure", 2
	case OutcomeUnknown, "": // unknown, or not yet known
		status, statusID = "Unknown", 0
	case OutcomeToolError, OutcomeError, OutcomeCancelled, OutcomeAbandoned:
		severity, status, statusID = 2, "Failure", 2
	}
	groups := []map[string]string{}
	for _, g := range r.Principal.Groups {
		groups = append(groups, map[string]string{"name": g})
	}
	event := map[string]any{
		"class_uid": class, "class_name": "API Activity", "category_uid": 6, "category_name": "Application Activity",
		"activity_id": activity, "activity_name": r.Method, "type_uid": class*100 + activity, "type_name": "API Activity: Other",
		"time": r.Time.UnixMilli(), "severity_id": severity, "status": status, "status_id": statusID,
		"status_code": r.Code, "status_detail": r.Reason, "duration": r.DurationUS / 1000, "message": string(r.Outcome),
		"metadata": map[string]any{
			"version": "1.3.0", "profiles": []string{"security_control"}, "uid": r.CallID, "sequence": r.Seq, "log_name": "audit", "correlation_uid": r.TraceID,
			"product": map[string]string{"name": "toolgate", "vendor_name": "toolgate", "version": version},
		},
		"actor": map[string]any{
			"user": map[string]any{
				"name": r.Principal.Subject, "uid": r.Principal.Subject, "domain": r.Principal.Issuer,
				"org": map[string]string{"uid": r.Principal.Tenant}, "groups": groups,
			},
			"session": map[string]string{"uid": r.Session}, "app_name": r.Client.Name,
		},
		"api": map[string]any{
			"operation": cmp.Or(r.OriginalName, r.Method), "request": map[string]string{"uid": r.CallID}, "service": map[string]string{"name": r.Server},
		},
		"src_endpoint": map[string]string{"name": cmp.Or(r.Client.Name, "unknown")},
		"resources":    []map[string]string{{"uid": r.CapabilityID, "name": r.Name, "type": r.Kind}},
		"unmapped": map[string]any{
			"event": r.Event, "steps": r.Steps, "budgets": r.Budgets, "breaker": r.Breaker, "args_hash": r.ArgsHash, "mac": r.MAC,
		},
	}
	switch r.Decision() {
	case "allow":
		event["action"], event["action_id"], event["disposition"], event["disposition_id"] = "Allowed", 1, "Allowed", 1
	case "deny":
		event["action"], event["action_id"], event["disposition"], event["disposition_id"] = "Denied", 2, "Blocked", 2
	}
	return event
}
