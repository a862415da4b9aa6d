// Package telemetry counts what the gateway does and serves the counts to
// Prometheus. Labels are bounded: names of tools are those of the catalog, and
// subjects never appear.
package telemetry
