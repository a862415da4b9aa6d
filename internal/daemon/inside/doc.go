// Package inside makes the groups of tools that the gateway serves itself, of the parts
// of a running gateway. What they keep is in the store.
package inside
