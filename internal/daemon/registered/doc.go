// Package registered manages the tools that agents register from the operator's templates
// (ADR 0040). The store records what was registered, sealed with the gateway's key. The
// configuration says what each of them reaches or runs. A tool whose template has changed
// since is not served.
package registered
