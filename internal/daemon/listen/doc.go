// Package listen opens the listeners of the gateway and serves HTTP on them: how many
// connections there may be, which certificate is shown, who may read the metrics.
package listen
