// Package console serves pages for people who look at a gateway in a browser. Everything that
// a page shows comes from the interfaces of the admin API. Each view has a file. The other
// files decide who may sign in, and what a role may see.
package console
