// Package daemon is the running gateway. It makes the parts of a gateway from one
// configuration, runs them together and ends them together. Commands start a gateway and
// talk to it over the control API; this package knows no command.
package daemon
