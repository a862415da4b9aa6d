// Package daemon is the running gateway: everything that lives as long as it does, made
// of the settings of one configuration and run together until it ends. Commands start
// it, ask it over the control API, and say what it said; it knows nothing of them.
package daemon
