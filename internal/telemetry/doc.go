// Package telemetry reports what the gateway does: [Metrics] are counters for
// Prometheus, named by the OpenTelemetry semantic conventions for MCP, and [Traces]
// sends spans to a collector.
//
// Every label has a bounded number of values (see [Metrics]): names of tools are those
// of the catalog, and subjects and tenants never appear. Counting a call allocates
// nothing.
package telemetry
