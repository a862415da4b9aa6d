// Package notify is the tool by which an agent tells its user something: the group notify.
// Whoever makes the group hands in how the user is reached.
package notify
