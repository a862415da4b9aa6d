// Package home has the page that a person sees who opens the gateway's address in a browser:
// what this is, and what to give to which client. Strangers may read it, so it says nothing
// of servers, tools or callers.
package home
