// Package home has the page that a person sees who opens the gateway's address in a browser.
// It says what the gateway is, and what to write into the file of which client. Everybody may
// read it, so it says nothing of servers, tools or callers.
package home
