// Package inside serves groups of tools in the gateway's own process: those that are
// about what the gateway itself keeps for its callers, such as their memories. They read
// no file, start no program and open no connection, so that there is nothing to confine.
// They are written like all other groups, with native/toolapi, and are backends like
// them.
package inside
