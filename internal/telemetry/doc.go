// Package telemetry says what the gateway does to those who watch over it:
// counters for Prometheus under the names of the OpenTelemetry semantic
// conventions for MCP, and spans for a collector.
//
// Every label has a bound (see [Metrics]): names of tools are those of the
// catalog, and subjects and tenants never appear. What is counted for each call
// allocates nothing.
package telemetry
