// Package console serves pages for people who look at a gateway in a browser. What a page
// shows comes from the interfaces of the admin API, and nothing else. A file holds one
// view. Everything else is the door: who may come in, and what a role may see.
package console
